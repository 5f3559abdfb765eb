"""Train with the callbacks, loggers and profilers that users pass to a Trainer."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import torch

from northbridge.lightning.profilers.trace import read_trace
from northbridge_conformance.runs.findings import write
from northbridge_conformance.runs.fingerprints import fingerprint
from northbridge_conformance.runs.hosts import _Validated, classifier, lightnings, own_rank, trainer
from northbridge_conformance.runs.models import loader
from northbridge_conformance.runs.scenario import Scenario


def perform(scenario: Scenario, folder: Path) -> None:
    """Report the contents of the callbacks, the loggers' files, and the weights."""
    found = {"logged": _log(scenario, folder), "stopped": _stop(scenario, folder), "kept": _keep(scenario, folder)}
    write(folder, "callbacks", own_rank(), {**found, "averaged": _average(scenario, folder)})


def _fit(scenario: Scenario, folder: Path, called: list[Any], **arguments: Any) -> tuple[Any, Any]:
    host = trainer(scenario, folder, callbacks=called, **{"log_every_n_steps": 1, "max_epochs": 3, **arguments})
    module = classifier(scenario.namespace, "mlp", folder, "callbacks fit", _Watched)
    host.fit(module, loader(), loader(shuffle=False))
    return host, module


def _log(scenario: Scenario, folder: Path) -> dict[str, Any]:
    callbacks, loggers = lightnings(scenario, "callbacks"), lightnings(scenario, "loggers")
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
    callbacks = lightnings(scenario, "callbacks")
    timer = callbacks.Timer(duration={"hours": 1})
    called = [timer, callbacks.TQDMProgressBar(), callbacks.SpikeDetection(finite_only=True)]
    called.append(callbacks.EarlyStopping("validation loss", patience=1, min_delta=1.0))
    host, _ = _fit(scenario, folder, called, max_epochs=9, enable_progress_bar=True)
    return {"epoch": host.current_epoch, "measured": 0 < timer.time_elapsed("train") < 3600}


def _keep(scenario: Scenario, folder: Path) -> dict[str, Any]:
    callbacks = lightnings(scenario, "callbacks")
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
    callbacks = lightnings(scenario, "callbacks")
    if not hasattr(callbacks, "EMAWeightAveraging"):  # before Lightning 2.6
        return []
    _, module = _fit(scenario, folder, [callbacks.EMAWeightAveraging(decay=0.8)])
    return torch.cat([each.detach().cpu().flatten() for each in module.parameters()])[:40].tolist()


class _Watched(_Validated):
    def training_step(self, batch: Any, batch_index: int) -> Any:
        return {"loss": super().training_step(batch, batch_index)}


def profilers(scenario: Scenario, folder: Path) -> None:
    """Train under each of Lightning's profilers; report weights and the profilers' summaries."""
    kinds = lightnings(scenario, "profilers")
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
        module = classifier(scenario.namespace, "mlp", folder, "callbacks.profilers fit")
        host.fit(module, loader(shuffle=False))
        rank = host.global_rank
        files = (f"*-{name}.txt", f"*-{name}-{rank}.txt")  # with several ranks, Lightning appends the rank
        said = "".join(path.read_text() for file in files for path in folder.glob(file))
        found[name] = {"weights": fingerprint(module.state_dict()), "said": said}
    found["pytorch"]["events"] = _read_events(folder, rank)
    write(folder, "callbacks.profilers", rank, found)


def _read_events(folder: Path, rank: int) -> list[list[float]]:
    """Return the microseconds of the device's events in each trace of this rank."""
    own = (f"*-pytorch-{rank}-*.trace.json", "*-pytorch-[[]*.trace.json")
    files = [path for each in own for path in sorted(folder.glob(each))]
    return [[event.microseconds for event in read_trace(path).events] for path in files]
