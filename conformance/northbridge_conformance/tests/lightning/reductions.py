"""Reduce, gather, broadcast and log as Lightning's users do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from northbridge.discovery.current import loaded
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.hosts import _Classifier, classifier, fabric, is_trainer, module_of, trainer
from northbridge_conformance.runs.models import CLASSES, loader
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.suite import (
    FABRICS,
    TRAINERS,
    Differences,
    NamespaceSuite,
    Runs,
    in_each,
    several_devices,
    shows,
)
from northbridge_conformance.tests.collective.collective_reductions import large_number, reduced

FLOATS = ((1.5, -2.0), (3.0, -4.0), (0.25, 8.0), (-1.0, 0.5))
"""The numbers that each rank contributes."""


def wholes(large: int) -> tuple[tuple[int, int], ...]:
    """Return each rank's integers; a conversion to float32 would lose the last digits."""
    return (large + 1, -7), (large + 4, -2), (large + 3, 5), (large + 2, 9)


def reduce_numbers(scenario: Scenario, folder: Path) -> None:
    """Reduce, gather and broadcast on each rank, which reports the results."""
    if is_trainer(scenario.namespace):
        host = trainer(scenario, folder, max_epochs=1)
        host.fit(classifier(scenario.namespace, "mlp", folder, "reduce_numbers fit", _Reducing), loader())
    else:
        fabric(scenario).launch(_in_fabric, folder)


def _in_fabric(host: Any, folder: Path) -> None:
    found = _reduce_all(host.all_reduce, host.all_gather, host.broadcast, host.device, host.global_rank)
    write(folder, "reduce_numbers", host.global_rank, found)


class _Reducing(_Classifier):
    def on_train_start(self) -> None:
        strategy = self.trainer.strategy
        found = _reduce_all(strategy.reduce, self.all_gather, strategy.broadcast, self.device, self.global_rank)
        write(self.folder, "reduce_numbers", self.global_rank, found)


def _reduce_all(
    reduce: Callable[..., Any],
    all_gather: Callable[..., Any],
    broadcast: Callable[..., Any],
    device: torch.device,
    rank: int,
) -> dict[str, Any]:
    chip = loaded()
    assert chip is not None
    large = large_number(chip.name)
    given_wholes = torch.tensor(wholes(large)[rank])
    found: dict[str, Any] = {"large": large}
    for word, given in (("float", torch.tensor(FLOATS[rank])), ("int64", given_wholes)):
        for operation in ("sum", "mean", "min", "max"):
            tensor = given.to(device)
            result = reduce(tensor, reduce_op=operation)
            found[f"{operation} of {word}"] = {
                "result": result.tolist(),
                "in place": tensor.tolist(),
                "device": str(result.device),
            }
    gathered = all_gather({"float": torch.tensor(FLOATS[rank]).to(device), "int64": given_wholes.to(device)})
    found["gathered"] = {name: tensor.tolist() for name, tensor in gathered.items()}
    found["gathered on"] = sorted({str(tensor.device) for tensor in gathered.values()})
    weight = torch.full((2,), rank + 1.0, device=device, requires_grad=True)
    (all_gather(weight, sync_grads=True) * (rank + 1)).sum().backward()
    assert weight.grad is not None
    found["gradient of a gather"] = weight.grad.tolist()
    found["broadcast"] = broadcast({"from": rank, "text": "ü" * (rank + 1)})
    found["broadcast tensor"] = broadcast(given_wholes.to(device)).tolist()
    return found


def log_metrics(scenario: Scenario, folder: Path) -> None:
    """Train until an integer metric has not decreased for two epochs; each rank reports all its metrics."""
    callbacks = module_of(scenario, "callbacks")
    patience = callbacks.EarlyStopping("errors", mode="min", patience=2)
    host = trainer(scenario, folder, max_epochs=20, callbacks=[patience])
    host.fit(
        classifier(scenario.namespace, "mlp", folder, "log_metrics fit", _Measured),
        loader(),
        loader(shuffle=False),
    )
    found = {name: value.item() for name, value in host.callback_metrics.items()}
    found |= {"stopped": patience.stopped_epoch, "epochs": host.current_epoch}
    write(folder, "log_metrics", host.global_rank, found)


class _Measured(_Classifier):
    def __init__(self, net: torch.nn.Module, folder: Path, topic: str) -> None:
        from torchmetrics import MeanMetric
        from torchmetrics.classification import MulticlassAccuracy

        super().__init__(net, folder, topic)
        self.accuracy = MulticlassAccuracy(num_classes=CLASSES, average="micro")
        self.mean_loss = MeanMetric()

    def validation_step(self, batch: Any, batch_index: int) -> None:
        scores: Tensor = self.net(batch[0])
        loss = cross_entropy(scores, batch[1])
        errors = (scores.argmax(1) != batch[1]).sum()
        self.log("errors", errors, sync_dist=True, reduce_fx="sum")
        for reduction in ("mean", "min", "max", "sum"):
            self.log(f"loss {reduction}", loss, sync_dist=True, reduce_fx=reduction)
        self.accuracy(scores, batch[1])
        self.mean_loss(loss)
        self.log_dict({"accuracy": self.accuracy, "mean loss": self.mean_loss})


OPERATIONS = [f"{reduction} of {kind}" for kind in ("float", "int64") for reduction in ("sum", "mean", "min", "max")]


def expected(operation: str, devices: int, large: int) -> list[float]:
    """Return every rank's expected result; the integers are near ``large``."""
    word, _, kind = operation.partition(" of ")
    given = FLOATS if kind == "float" else wholes(large)
    return reduced(word, given[:devices], whole=kind == "int64")


class Reductions(NamespaceSuite):
    """Reductions, gathers and broadcasts over several ranks work through the strategy, the module, and Fabric."""

    runs: Runs = several_devices(*TRAINERS, *FABRICS)
    advice = (
        "Look at the Collective's all_reduce: in place, whole numbers exact and their mean cut towards zero, and at"
        " `exact_dtypes`, which says what the library would round."
    )

    @pytest.fixture
    def found(self, chip: RunResult) -> list[dict[str, Any]]:
        return chip.ranks("reduce_numbers")

    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_a_reduction_is_exact(self, devices: int, found: list[dict[str, Any]], operation: str) -> None:
        exact = expected(operation, devices, found[0]["large"])

        assert [rank[operation]["result"] for rank in found] == [exact] * devices

    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_a_reduction_is_in_place(self, devices: int, found: list[dict[str, Any]], operation: str) -> None:
        exact = expected(operation, devices, found[0]["large"])

        assert [rank[operation]["in place"] for rank in found] == [exact] * devices

    def test_results_are_on_the_device_of_the_rank(self, chip: RunResult, found: list[dict[str, Any]]) -> None:
        for rank, trained in zip(found, chip.ranks("train mlp"), strict=True):
            assert {rank[operation]["device"] for operation in OPERATIONS} == {trained["root device"]}
            assert rank["gathered on"] == [trained["root device"]]

    @shows("all_gather")
    def test_all_gather_stacks_the_tensors_of_all_ranks(self, devices: int, found: list[dict[str, Any]]) -> None:
        given = {"float": FLOATS[:devices], "int64": wholes(found[0]["large"])[:devices]}

        stacked = {kind: [list(each) for each in ranks] for kind, ranks in given.items()}
        assert [rank["gathered"] for rank in found] == [stacked] * devices

    @shows("all_gather")
    def test_gradients_flow_back_through_all_gather(self, devices: int, found: list[dict[str, Any]]) -> None:
        weights = range(1, devices + 1)  # rank r weighs the gathered values with r + 1

        assert [rank["gradient of a gather"] for rank in found] == [[float(sum(weights))] * 2] * devices

    @shows("broadcast")
    def test_broadcast_carries_objects_and_tensors_of_rank_0(self, devices: int, found: list[dict[str, Any]]) -> None:
        assert [rank["broadcast"] for rank in found] == [{"from": 0, "text": "ü"}] * devices
        assert [rank["broadcast tensor"] for rank in found] == [list(wholes(found[0]["large"])[0])] * devices


class LoggedMetrics(NamespaceSuite):
    """Two ranks log the same metrics as two CPU ranks of Lightning's own."""

    runs: Runs = in_each(*TRAINERS, devices=(2,))
    advice = "Look at the Collective's all_reduce of single numbers, floats and whole ones, and at its barrier."

    @pytest.mark.parametrize("reduction", ["mean", "min", "max", "sum"])
    def test_sync_dist_reduces_a_float(self, chip: RunResult, differences: Differences, reduction: str) -> None:
        self.check(chip, differences, f"loss {reduction}")

    def test_sync_dist_reduces_an_integer(self, chip: RunResult, cpu: RunResult) -> None:
        assert chip.each("log_metrics", "errors") == cpu.each("log_metrics", "errors")

    def test_early_stopping_on_an_integer_matches_a_cpu_run(self, chip: RunResult, cpu: RunResult) -> None:
        assert chip.each("log_metrics", "stopped") == cpu.each("log_metrics", "stopped")
        assert chip.each("log_metrics", "epochs") == cpu.each("log_metrics", "epochs")
        assert 0 < chip.each("log_metrics", "stopped")[0] < 19

    @pytest.mark.parametrize("metric", ["accuracy", "mean loss"])
    def test_torchmetrics_metric_matches_a_cpu_run(
        self, chip: RunResult, differences: Differences, metric: str
    ) -> None:
        self.check(chip, differences, metric)

    def check(self, chip: RunResult, differences: Differences, name: str) -> None:
        """Compare a logged metric, which must be equal on both ranks."""
        found = chip.each("log_metrics", name)
        assert differences("log_metrics", name) == []
        assert found[0] == found[1]
