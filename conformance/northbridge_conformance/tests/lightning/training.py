"""One device, through the Trainer."""

from __future__ import annotations

import csv
import gc
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits as distance, cross_entropy

import northbridge
from northbridge.lightning.namespaces import Stock
from northbridge.processes.environment import environment_at_start
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.comparison import fingerprint
from northbridge_conformance.runs.hosts import (
    _Classifier,
    _Validated,
    bytes_on_chip,
    classifier,
    combine,
    fabric,
    facts,
    is_trainer,
    module_of,
    set_up,
    trainer,
)
from northbridge_conformance.runs.models import TiedWeights, adam, loader
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.suite import (
    MODELS,
    TRAINERS,
    Differences,
    EqualWeights,
    Runs,
    UsesSuite,
    in_each,
    shows,
)
from northbridge_conformance.tests.device.one_device import reject_without
from northbridge_conformance.tests.lightning.hooks import changed_since


def train(scenario: Scenario, folder: Path) -> None:
    """Train each of the scenario's models for two epochs; each rank reports."""
    train_models(scenario, folder, "train")


def train_models(scenario: Scenario, folder: Path, topic: str, **arguments: Any) -> None:
    """Train each of the scenario's models with ``arguments`` for the Trainer or Fabric; each rank reports."""
    if is_trainer(scenario.namespace):
        for model in scenario.models:
            _fit(scenario, folder, model, f"{topic} {model}", **arguments)
    else:
        fabric(scenario, **arguments).launch(_loop, scenario.models, folder, topic)


def _fit(scenario: Scenario, folder: Path, model: str, topic: str, **arguments: Any) -> None:
    """Train ``model``; each rank reports as ``topic``, and each surviving process as ``after`` it."""
    before = environment_at_start()
    host = trainer(scenario, folder, **arguments)
    module = classifier(scenario.namespace, model, folder, topic)
    host.fit(module, loader())
    left = {
        "weights": fingerprint(module.state_dict()),
        "parameters": len(list(module.parameters())),
        "changed": changed_since(before),
    }
    write(folder, f"after {topic}", host.global_rank, left)


def _loop(host: Any, models: tuple[str, ...], folder: Path, topic: str) -> None:
    """Train ``models`` one after another in this rank, which reports each of them."""
    for model in models:
        host.seed_everything(1)
        net, optimizer = set_up(host, model)
        batches = host.setup_dataloaders(loader())
        for _ in range(2):
            train_epoch(host, net, optimizer, batches)
        write(folder, f"{topic} {model}", host.global_rank, {**facts(net, host.strategy), "host": str(host.device)})


def train_epoch(host: Any, net: Any, optimizer: Any, batches: Any) -> None:
    """Train over all ``batches`` once."""
    for pictures, labels in batches:
        optimizer.zero_grad()
        host.backward(cross_entropy(net(pictures), labels))
        optimizer.step()


def log_device_stats(scenario: Scenario, folder: Path) -> None:
    """Train with Lightning's DeviceStatsMonitor; rank 0 reports each column's maximum, and the chip's statistics."""
    callbacks = module_of(scenario, "callbacks")
    loggers = module_of(scenario, "loggers")
    logger = loggers.CSVLogger(folder, name="log_device_stats")
    arguments = {"logger": logger, "callbacks": [callbacks.DeviceStatsMonitor(cpu_stats=False)], "log_every_n_steps": 1}
    host = trainer(scenario, folder, **arguments)
    host.fit(classifier(scenario.namespace, "mlp", folder, "log_device_stats fit"), loader())
    with (Path(logger.log_dir) / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    largest = {name: max((float(row[name]) for row in rows if row[name]), default=0.0) for name in rows[0]}
    statistics = sorted(host.accelerator.get_device_stats(host.strategy.root_device))
    write(folder, "log_device_stats", host.global_rank, {"columns": largest, "statistics": statistics})


TRAININGS = 4
"""The number of trainings, one after another, of which each must return its memory."""


def train_repeatedly(scenario: Scenario, folder: Path) -> None:
    """Train with one Trainer after another; report the chip's memory after each, when nothing of it is in use."""
    held = []
    for _ in range(TRAININGS):
        host = trainer(scenario, folder, max_epochs=1, limit_train_batches=2)
        host.fit(classifier(scenario.namespace, "mlp", folder, "train_repeatedly fit"), loader())
        chip = host.strategy.backend, host.strategy.root_device
        del host
        gc.collect()
        held.append(bytes_on_chip(*chip))
    write(folder, "train_repeatedly", 0, {"held": held})


def run_stages(scenario: Scenario, folder: Path) -> None:
    """Fit, validate, test and predict; each rank reports its metrics and predictions."""
    host = trainer(scenario, folder)
    module = classifier(scenario.namespace, "convnet", folder, "run_stages fit", _Staged)
    batches = loader(shuffle=False)
    host.fit(module, loader(), batches)
    found = {"fit": _numbers(host.callback_metrics)}
    (validated,) = host.validate(module, batches)
    (tested,) = host.test(module, batches)
    predictions = host.predict(module, batches)
    found |= {"validate": _numbers(validated), "test": _numbers(tested)}
    outside = sorted({str(each.device) for each in predictions})
    digests = fingerprint({str(number): each for number, each in enumerate(predictions)})
    write(folder, "run_stages", host.global_rank, {**found, "predictions": digests, "prediction devices": outside})


def _numbers(metrics: Any) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.items()}


class _Staged(_Validated):
    def test_step(self, batch: Any, batch_index: int) -> None:
        self.log("test loss", cross_entropy(self.net(batch[0]), batch[1]), sync_dist=True)

    def predict_step(self, batch: Any, batch_index: int) -> Tensor:
        scores: Tensor = self.net(batch[0])
        return scores


def optimize_manually(scenario: Scenario, folder: Path) -> None:
    """Train two adversarial networks, each with its own optimizer, for two epochs; each rank reports the weights."""
    # Each backward reaches only one of the two networks; DDP needs to be told.
    strategy = "auto" if scenario.alone else "ddp_find_unused_parameters_true"
    host = trainer(scenario, folder, strategy=strategy)
    torch.manual_seed(3)
    module = combine(scenario.namespace, _Adversaries)()
    host.fit(module, loader())
    facts = {"weights": fingerprint(module.state_dict()), "steps": host.global_step}
    write(folder, "optimize_manually", host.global_rank, facts)


class _Adversaries(Stock):  # type: ignore[misc]  # of Lightning's module
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.forger = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 64))
        self.judge = nn.Sequential(nn.Linear(64, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))

    def configure_optimizers(self) -> Any:
        return [adam(part.parameters()) for part in (self.forger, self.judge)]

    def training_step(self, batch: Any, batch_index: int) -> None:
        real = batch[0].flatten(1)
        forging, judging = self.optimizers()
        # Part of the data replaces random noise.
        for optimizer, wanted in ((forging, 1.0), (judging, 0.0)):
            self.toggle_optimizer(optimizer)
            loss = self._judged(self.forger(real[:, :8]), wanted)
            if optimizer is judging:
                loss = loss + self._judged(real, 1.0)
            self.manual_backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            self.untoggle_optimizer(optimizer)

    def _judged(self, pictures: Tensor, wanted: float) -> Tensor:
        verdict = self.judge(pictures)
        return distance(verdict, torch.full_like(verdict, wanted))


_FITS = 16
"""The largest batch size for which there is memory."""


def tune(scenario: Scenario, folder: Path) -> None:
    """Report the batch sizes that both modes find, and the suggested learning rate."""
    tuner = module_of(scenario, "tuner")
    found: dict[str, Any] = {}
    for mode in ("power", "binsearch"):
        module = classifier(scenario.namespace, "mlp", folder, "tune fit", _Tuned)
        host = tuner.Tuner(trainer(scenario, folder))
        found[mode] = host.scale_batch_size(module, mode=mode, steps_per_trial=1, init_val=2)
    module = classifier(scenario.namespace, "mlp", folder, "tune fit", _Tuned)
    host = tuner.Tuner(trainer(scenario, folder))
    search = host.lr_find(module, num_training=20)
    found |= {"losses": search.results["loss"], "suggestion": search.suggestion(), "rate": module.lr}
    write(folder, "tune", 0, found)


class _Tuned(_Classifier):
    batch_size = 2
    lr = 1e-3

    def train_dataloader(self) -> Any:
        return torch.utils.data.DataLoader(loader().dataset, batch_size=self.batch_size)

    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        if len(batch[0]) > _FITS:
            torch.empty(2**50, dtype=torch.uint8, device=self.device)[-1].item()  # a lazy chip allocates it now
        return super().training_step(batch, batch_index)

    def configure_optimizers(self) -> Any:
        return adam(self.parameters(), rate=self.lr)


class TrainingTests(EqualWeights):
    """A Trainer with one device trains as Lightning's own does on the CPU."""

    runs: Runs = in_each(*TRAINERS)
    claims: tuple[str, ...] = ("fit",)
    advice = (
        "The model that differs names what to look at: compare its operations with the CPU's one by one, forwards and"
        " backwards. C1 tries most of them. Where they are alike, look at what else the first batches depend on:"
        " Device.seed(), which leaves the CPU's generator alone."
    )

    @pytest.mark.parametrize("model", MODELS)
    def test_model_keeps_its_weights_after_teardown(self, chip: RunResult, model: str) -> None:
        assert chip.only(f"after train {model}")["weights"] == chip.only(f"train {model}")["weights"]

    def test_model_trains_on_device_0(self, backend: str, chip: RunResult) -> None:
        found = chip.only("train mlp")

        device = str(northbridge.load(backend).device.root(0))
        assert device.endswith(":0")
        assert found["root device"] == found["module device"] == device
        assert found["parameter devices"] == [device]

    def test_tied_weights_stay_tied_through_fit_and_teardown(self, chip: RunResult) -> None:
        tied = len(list(TiedWeights().parameters()))

        assert chip.only("train tied")["parameters"] == tied
        assert chip.only("after train tied")["parameters"] == tied

    def test_metrics_of_fit_validate_and_test_match_a_cpu_run(self, chip: RunResult, differences: Differences) -> None:
        for stage in ("fit", "validate", "test"):
            assert differences("run_stages", stage) == []
        assert set(chip.only("run_stages")["fit"]) == {"loss", "validation loss"}

    def test_predictions_match_a_cpu_run_and_are_on_the_cpu(self, chip: RunResult, differences: Differences) -> None:
        assert chip.only("run_stages")["prediction devices"] == ["cpu"]
        assert differences("run_stages", "predictions") == []

    def test_manual_optimization_with_two_optimizers(self, differences: Differences) -> None:
        assert differences("optimize_manually") == []

    @shows("memory_stats")
    def test_device_stats_monitor_logs_memory_statistics(self, chip: RunResult) -> None:
        columns = chip.only("log_device_stats")["columns"]

        assert chip.only("log_device_stats")["statistics"]
        for statistic in chip.only("log_device_stats")["statistics"]:
            assert f"DeviceStatsMonitor.on_train_batch_end/{statistic}" in columns
        assert any(name.startswith("DeviceStatsMonitor.") and number > 0 for name, number in columns.items())

    @pytest.mark.parametrize("search", ["power", "binsearch"])
    def test_batch_size_finder_stops_at_out_of_memory(self, chip: RunResult, cpu: RunResult, search: str) -> None:
        assert chip.only("tune")[search] == cpu.only("tune")[search]
        assert 15 <= chip.only("tune")[search] <= 16  # newer releases leave a margin

    def test_learning_rate_finder_matches_a_cpu_run(
        self, chip: RunResult, cpu: RunResult, differences: Differences
    ) -> None:
        found = chip.only("tune")

        assert differences("tune", "losses") == []
        assert found["rate"] == found["suggestion"] == cpu.only("tune")["suggestion"]


class RepeatedTraining(UsesSuite):
    """Trainings one after another in the same process leave nothing on the chip."""

    runs: Runs = in_each(*TRAINERS)
    claims: tuple[str, ...] = ("fit",)
    advice = (
        "Look at what is allocated for each Trainer and not released with it: in the Device's select() and"
        " empty_cache(), in the Bridge's hooks, and in workspaces of the vendor's kernels, which a process should"
        " share."
    )

    LEFT_BYTES = 2**16
    """The allowed growth between the first and the last training."""

    @shows("memory_stats")
    def test_repeated_trainings_leave_no_device_memory_in_use(self, backend: str, chip: RunResult) -> None:
        reject_without(backend, "memory_stats")
        held = chip.only("train_repeatedly")["held"]

        assert len(held) == TRAININGS
        assert held[-1] - held[0] <= self.LEFT_BYTES, held
