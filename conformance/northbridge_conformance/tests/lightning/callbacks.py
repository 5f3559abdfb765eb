"""The callbacks, loggers and profilers that users pass to a Trainer."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import torch

import northbridge
from northbridge.errors import UnsupportedError
from northbridge.lightning.profilers.trace import read_trace
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.comparison import fingerprint
from northbridge_conformance.runs.hosts import _Validated, classifier, module_of, own_rank, trainer
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.suite import TRAINERS, Differences, Runs, UsesSuite, one_and_two_devices, shows


def train_with_callbacks(scenario: Scenario, folder: Path) -> None:
    """Report the contents of the callbacks, the loggers' files, and the weights."""
    found = {"logged": _log(scenario, folder), "stopped": _stop(scenario, folder), "kept": _keep(scenario, folder)}
    write(folder, "train_with_callbacks", own_rank(), {**found, "averaged": _average(scenario, folder)})


def _fit(scenario: Scenario, folder: Path, called: list[Any], **arguments: Any) -> tuple[Any, Any]:
    host = trainer(scenario, folder, callbacks=called, **{"log_every_n_steps": 1, "max_epochs": 3, **arguments})
    module = classifier(scenario.namespace, "mlp", folder, "train_with_callbacks fit", _Watched)
    host.fit(module, loader(), loader(shuffle=False))
    return host, module


def _log(scenario: Scenario, folder: Path) -> dict[str, Any]:
    callbacks, loggers = module_of(scenario, "callbacks"), module_of(scenario, "loggers")
    tables = loggers.CSVLogger(folder, name="callbacks")
    boards = loggers.TensorBoardLogger(folder, name="boards")
    called = [
        callbacks.LearningRateMonitor(),
        callbacks.ThroughputMonitor(lambda batch: len(batch[0])),
        callbacks.RichProgressBar(),
        callbacks.RichModelSummary(),
    ]
    shown = {"enable_progress_bar": True, "enable_model_summary": True}
    host, module = _fit(scenario, folder, called, logger=[tables, boards], **shown)
    found: dict[str, Any] = {"weights": fingerprint(module.state_dict())}
    if host.is_global_zero:
        with (Path(tables.log_dir) / "metrics.csv").open() as file:
            rows = list(csv.DictReader(file))
        losses = [float(row["validation loss"]) for row in rows if row["validation loss"]]
        boards = [path.stat().st_size > 0 for path in Path(boards.log_dir).glob("events.*")]
        found |= {"losses": losses, "columns": sorted(rows[0]), "boards": boards}
    return found


def _stop(scenario: Scenario, folder: Path) -> dict[str, Any]:
    callbacks = module_of(scenario, "callbacks")
    timer = callbacks.Timer(duration={"hours": 1})
    called = [timer, callbacks.TQDMProgressBar(), callbacks.SpikeDetection(finite_only=True)]
    called.append(callbacks.EarlyStopping("validation loss", patience=1, min_delta=1.0))
    host, _ = _fit(scenario, folder, called, max_epochs=9, enable_progress_bar=True)
    return {"epoch": host.current_epoch, "measured": 0 < timer.time_elapsed("train") < 3600}


def _keep(scenario: Scenario, folder: Path) -> dict[str, Any]:
    callbacks = module_of(scenario, "callbacks")
    kept = folder / f"kept-{scenario.namespace}"
    checkpoints = callbacks.ModelCheckpoint(kept, "{epoch}", "validation loss", save_top_k=2, save_last=True)
    _fit(scenario, folder, [checkpoints], enable_checkpointing=True)
    best = torch.load(checkpoints.best_model_path, weights_only=True)
    return {
        "files": sorted(path.name for path in kept.iterdir()),
        "best": Path(checkpoints.best_model_path).name,
        "score": checkpoints.best_model_score.item(),
        "devices": sorted({str(each.device) for each in best["state_dict"].values()}),
    }


def _average(scenario: Scenario, folder: Path) -> Any:
    callbacks = module_of(scenario, "callbacks")
    if not hasattr(callbacks, "EMAWeightAveraging"):  # before Lightning 2.6
        return []
    _, module = _fit(scenario, folder, [callbacks.EMAWeightAveraging(decay=0.8)])
    return torch.cat([each.detach().cpu().flatten() for each in module.parameters()])[:40].tolist()


class _Watched(_Validated):
    def training_step(self, batch: Any, batch_index: int) -> Any:
        return {"loss": super().training_step(batch, batch_index)}


def profile(scenario: Scenario, folder: Path) -> None:
    """Train under each of Lightning's profilers; report weights and the profilers' summaries."""
    kinds = module_of(scenario, "profilers")
    found: dict[str, Any] = {}
    rank = 0
    for name, kind in (
        ("none", lambda **_: None),
        ("simple", kinds.SimpleProfiler),
        ("advanced", kinds.AdvancedProfiler),
        ("pytorch", kinds.PyTorchProfiler),
    ):
        profiler = kind(dirpath=folder, filename=name)
        host = trainer(scenario, folder, profiler=profiler, max_epochs=1)
        module = classifier(scenario.namespace, "mlp", folder, "profile fit")
        host.fit(module, loader(shuffle=False))
        rank = host.global_rank
        files = (f"*-{name}.txt", f"*-{name}-{rank}.txt")  # with several ranks, Lightning appends the rank
        said = "".join(path.read_text() for file in files for path in folder.glob(file))
        found[name] = {"weights": fingerprint(module.state_dict()), "said": said}
    found["pytorch"]["events"] = _read_events(folder, rank)
    write(folder, "profile", rank, found)


def _read_events(folder: Path, rank: int) -> list[list[float]]:
    """Return the microseconds of the device's events in each trace of this rank."""
    own = (f"*-pytorch-{rank}-*.trace.json", "*-pytorch-[[]*.trace.json")
    files = [path for each in own for path in sorted(folder.glob(each))]
    return [[event.microseconds for event in read_trace(path).events] for path in files]


class Callbacks(UsesSuite):
    """Callbacks and loggers keep and write the same as on the CPU; training callbacks are tested in Optimization."""

    runs: Runs = one_and_two_devices(*TRAINERS)
    advice = (
        "Callbacks read numbers back from the chip: look at copies to the host, at .item(), and at what a"
        " checkpoint's tensors are copied from."
    )

    @shows("fit")
    def test_logged_values_match_a_cpu_run(self, chip: RunResult, differences: Differences) -> None:
        found = chip.each("train_with_callbacks", "logged")

        assert differences("train_with_callbacks", "logged") == []
        assert found[0]["boards"] == [True]
        assert {"lr-Adam", "train/samples", "validation loss"} <= set(found[0]["columns"])

    @shows("fit")
    def test_early_stopping_matches_a_cpu_run_and_the_timer_runs(self, chip: RunResult, cpu: RunResult) -> None:
        found = chip.each("train_with_callbacks", "stopped")

        assert found == cpu.each("train_with_callbacks", "stopped")
        assert found[0]["measured"]
        assert 0 < found[0]["epoch"] < 9

    @shows("checkpoint")
    def test_best_checkpoints_match_a_cpu_run(self, chip: RunResult, differences: Differences) -> None:
        found = chip.each("train_with_callbacks", "kept")

        assert differences("train_with_callbacks", "kept") == []
        assert "last.ckpt" in found[0]["files"]
        assert len(found[0]["files"]) == 3
        assert found[0]["devices"] == ["cpu"]

    @shows("fit")
    def test_weight_averaging_matches_a_cpu_run(self, differences: Differences) -> None:
        # torch averages them one by one on the CPU, and with foreach elsewhere.
        assert differences("train_with_callbacks", "averaged", simulated_within=1e-6) == []


class Profilers(UsesSuite):
    """Profilers do not change the training, and report on each rank the steps and operators that ran."""

    runs: Runs = one_and_two_devices(*TRAINERS)
    advice = (
        "torch's profiler asks the vendor's plugin for its activities: look at what it registers with torch, and"
        " claim `profiler` only if it reports the chip's times."
    )

    @pytest.mark.parametrize(
        ("profiler", "told"),
        [("simple", "run_training_epoch"), ("advanced", "training_step"), ("pytorch", "aten::")],
    )
    def test_profiler_reports_what_ran_and_keeps_the_weights(self, chip: RunResult, profiler: str, told: str) -> None:
        for found in chip.ranks("profile"):
            assert told in found[profiler]["said"]
            assert found[profiler]["weights"] == found["none"]["weights"]

    @shows("profiler")
    def test_trace_and_table_of_each_rank_have_device_time(self, chip: RunResult, backend: str) -> None:
        claim = northbridge.get(backend).capabilities.profiler

        found = [each["pytorch"] for each in chip.ranks("profile")]

        if claim.denied:
            assert all(claim.reason in each["said"] for each in found)
            raise UnsupportedError(claim.reason, capability="profiler")
        if not any(events for each in found for events in each["events"]):
            raise UnsupportedError("no trace has an event of the device", capability="profiler")
        for each in found:
            assert each["events"]
            assert all(sum(events) > 0 for events in each["events"])
            assert "device events of" in each["said"]
