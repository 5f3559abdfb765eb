"""Reduce, gather, broadcast and log numbers through the Trainer's strategy and module, or through Fabric."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from northbridge.discovery.current import loaded
from northbridge_conformance.rank_programs.collective_reductions import large_number
from northbridge_conformance.runs.findings import write
from northbridge_conformance.runs.hosts import _Classifier, classifier, fabric, is_trainer, lightnings, trainer
from northbridge_conformance.runs.models import CLASSES, loader
from northbridge_conformance.runs.scenario import Scenario

FLOATS = ((1.5, -2.0), (3.0, -4.0), (0.25, 8.0), (-1.0, 0.5))
"""The numbers that each rank contributes."""


def wholes(large: int) -> tuple[tuple[int, int], ...]:
    """Return each rank's integers; a conversion to float32 would lose the last digits."""
    return (large + 1, -7), (large + 4, -2), (large + 3, 5), (large + 2, 9)


def perform(scenario: Scenario, folder: Path) -> None:
    """Reduce, gather and broadcast on each rank, which reports the results."""
    if is_trainer(scenario.namespace):
        host = trainer(scenario, folder, max_epochs=1)
        host.fit(classifier(scenario.namespace, "mlp", folder, "reductions fit", _Reducing), loader())
    else:
        fabric(scenario).launch(_in_fabric, folder)


def _in_fabric(host: Any, folder: Path) -> None:
    found = _reduce_all(host.all_reduce, host.all_gather, host.broadcast, host.device, host.global_rank)
    write(folder, "reductions", host.global_rank, found)


class _Reducing(_Classifier):
    def on_train_start(self) -> None:
        strategy = self.trainer.strategy
        found = _reduce_all(strategy.reduce, self.all_gather, strategy.broadcast, self.device, self.global_rank)
        write(self.folder, "reductions", self.global_rank, found)


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


def metrics(scenario: Scenario, folder: Path) -> None:
    """Train until an integer metric has not decreased for two epochs; each rank reports all its metrics."""
    callbacks = lightnings(scenario, "callbacks")
    patience = callbacks.EarlyStopping("errors", mode="min", patience=2)
    host = trainer(scenario, folder, max_epochs=20, callbacks=[patience])
    host.fit(
        classifier(scenario.namespace, "mlp", folder, "reductions.metrics fit", _Measured),
        loader(),
        loader(shuffle=False),
    )
    found = {name: value.item() for name, value in host.callback_metrics.items()}
    found |= {"stopped": patience.stopped_epoch, "epochs": host.current_epoch}
    write(folder, "reductions.metrics", host.global_rank, found)


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
