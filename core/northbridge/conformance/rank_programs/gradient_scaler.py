"""Train in float16 with a gradient scaler, through one overflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.fingerprints import fingerprint
from northbridge.conformance.runs.hosts import Classifier, build, classifier, fabric, is_trainer, trainer
from northbridge.conformance.runs.models import adam, loader, seen
from northbridge.conformance.runs.scenario import Scenario

BATCHES = 5
OVERFLOW = 2
"""The batch whose gradients are not finite."""

PRECISION = "16-mixed"


def perform(scenario: Scenario, folder: Path) -> None:
    """Train over a few batches; report scale and weights before each, and after the last."""
    if is_trainer(scenario.namespace):
        host = trainer(scenario, folder, precision=PRECISION, max_epochs=1, limit_train_batches=BATCHES)
        host.fit(classifier(scenario.namespace, "mlp", folder, "gradient_scaler fit", _Scaled), loader(shuffle=False))
        host.save_checkpoint(folder / "scaled.ckpt")
        _take_up(scenario, folder)
    else:
        fabric(scenario, precision=PRECISION).launch(_loop, folder)


def _take_up(scenario: Scenario, folder: Path) -> None:
    host = trainer(scenario, folder, precision=PRECISION, max_epochs=1)
    module = classifier(scenario.namespace, "mlp", folder, "gradient_scaler fit")
    host.fit(module, loader(shuffle=False), ckpt_path=folder / "scaled.ckpt")
    write(folder, "gradient_scaler resumed", 0, {"scale": host.precision_plugin.scaler.get_scale()})


class _Course:
    def __init__(self) -> None:
        self.scales: list[float] = []
        self.weights: list[str] = []

    def note(self, scaler: Any, net: torch.nn.Module) -> None:
        self.scales.append(scaler.get_scale())
        self.weights.append(fingerprint(net.state_dict()))

    def facts(self, scaler: Any, net: torch.nn.Module) -> dict[str, Any]:
        return {"enabled": scaler.is_enabled(), "scales": self.scales, "weights": self.weights, **seen(net)}


def _loss(scores: Tensor, labels: Tensor, batch: int) -> Tensor:
    loss = cross_entropy(scores, labels)
    return loss * float("inf") if batch == OVERFLOW else loss


class _Scaled(Classifier):
    def on_train_start(self) -> None:
        self.course = _Course()

    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        self.course.note(self.trainer.precision_plugin.scaler, self.net)
        return _loss(self.net(batch[0]), batch[1], batch_index)

    def on_train_end(self) -> None:
        scaler = self.trainer.precision_plugin.scaler
        self.course.note(scaler, self.net)
        write(self.folder, "gradient_scaler", self.global_rank, self.course.facts(scaler, self.net))


def _loop(host: Any, folder: Path) -> None:
    net: Any = build("mlp")
    optimizer: Any = adam(net.parameters())
    net, optimizer = host.setup(net, optimizer)
    course, scaler = _Course(), host.strategy.precision.scaler
    for number, (pictures, labels) in zip(range(BATCHES), host.setup_dataloaders(loader(shuffle=False)), strict=False):
        course.note(scaler, net)
        optimizer.zero_grad()
        host.backward(_loss(net(pictures), labels, number))
        optimizer.step()
    course.note(scaler, net)
    write(folder, "gradient_scaler", host.global_rank, course.facts(scaler, net))
    state = {"net": net, "scaler": scaler.state_dict()}
    host.save(folder / "scaled.ckpt", state)
    scaler.update(1.0)
    scaler.load_state_dict(host.load(folder / "scaled.ckpt", {"net": net})["scaler"])
    write(folder, "gradient_scaler resumed", host.global_rank, {"scale": scaler.get_scale()})
