"""Train in mixed precision, and in each of Lightning's precisions, and record the dtypes inside the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from northbridge.errors import UnsupportedError
from northbridge_conformance.rank_programs.training import train_models
from northbridge_conformance.runs.findings import write
from northbridge_conformance.runs.fingerprints import fingerprint
from northbridge_conformance.runs.hosts import (
    _Classifier,
    build,
    classifier,
    fabric,
    is_trainer,
    own_rank,
    set_up,
    trainer,
)
from northbridge_conformance.runs.models import loader, seen
from northbridge_conformance.runs.scenario import Scenario

PRECISIONS = {
    "32-true": ("float32", "float32"),
    "16-true": ("float16", "float16"),
    "bf16-true": ("bfloat16", "bfloat16"),
    "64-true": ("float64", "float64"),
    "16-mixed": ("float16", "float32"),
    "bf16-mixed": ("bfloat16", "float32"),
}
"""The dtypes of the last layer's output, and of the weights."""

BATCHES = 5
OVERFLOW = 2
"""The batch whose gradients are not finite."""

_SCALED = "16-mixed"


def mixed(scenario: Scenario, folder: Path) -> None:
    """Train each of the scenario's models under autocast in bfloat16; each rank reports."""
    with dtypes_inside() as inside:
        train_models(scenario, folder, "precision.mixed", precision="bf16-mixed")
    write(folder, "precision.mixed inside", own_rank(), {"dtypes": sorted(inside)})


@contextmanager
def dtypes_inside() -> Iterator[set[str]]:
    """Collect the dtypes of what linear and convolutional layers return inside, in any model of this process."""
    found: set[str] = set()

    def note(module: nn.Module, _given: Any, result: Tensor) -> None:
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            found.add(str(result.dtype))

    hook = nn.modules.module.register_module_forward_hook(note)
    try:
        yield found
    finally:
        hook.remove()


def dtypes(scenario: Scenario, folder: Path) -> None:
    """Report the dtypes under each precision and the weights that did not change, or the reason for a refusal."""
    write(folder, "precision.dtypes", 0, {precision: _try(scenario, folder, precision) for precision in PRECISIONS})


def _try(scenario: Scenario, folder: Path, precision: str) -> dict[str, Any]:
    try:
        return _fit(scenario, folder, precision) if is_trainer(scenario.namespace) else _loop(scenario, precision)
    except UnsupportedError as error:
        return {"refused": error.capability, "said": str(error)}


def _fit(scenario: Scenario, folder: Path, precision: str) -> dict[str, Any]:
    host = trainer(scenario, folder, precision=precision, max_epochs=1, limit_train_batches=2)
    module = classifier(scenario.namespace, "mlp", folder, "precision.dtypes fit")
    host.fit(module, loader())
    return _seen(module.net)


def _loop(scenario: Scenario, precision: str) -> dict[str, Any]:
    host = fabric(scenario, precision=precision)
    host.launch()
    net: Any = build("mlp")
    net, optimizer = host.setup(net, torch.optim.SGD(net.parameters(), lr=0.01))
    for images, labels in host.setup_dataloaders(loader()):
        host.backward(cross_entropy(net(images), labels))
        optimizer.step()
    return _seen(net)


def _seen(net: nn.Module) -> dict[str, Any]:
    weights = {str(each.dtype).removeprefix("torch.") for each in net.parameters()}
    begun = build("mlp").parameters()
    return {
        "scores": [each.removeprefix("torch.") for each in seen(net)["scores"]],
        "weights": sorted(weights),
        "as they began": [
            name
            for (name, found), first in zip(net.named_parameters(), begun, strict=True)
            if torch.equal(found.detach().cpu(), first.detach().to(found.dtype))
        ],
    }


def scaler(scenario: Scenario, folder: Path) -> None:
    """Train in float16 through one overflow; report scale and weights before each batch, and after the last."""
    if is_trainer(scenario.namespace):
        host = trainer(scenario, folder, precision=_SCALED, max_epochs=1, limit_train_batches=BATCHES)
        host.fit(classifier(scenario.namespace, "mlp", folder, "precision.scaler fit", _Scaled), loader(shuffle=False))
        host.save_checkpoint(folder / "scaled.ckpt")
        _resume(scenario, folder)
    else:
        fabric(scenario, precision=_SCALED).launch(_loop_over_overflow, folder)


def _resume(scenario: Scenario, folder: Path) -> None:
    host = trainer(scenario, folder, precision=_SCALED, max_epochs=1)
    module = classifier(scenario.namespace, "mlp", folder, "precision.scaler fit")
    host.fit(module, loader(shuffle=False), ckpt_path=folder / "scaled.ckpt")
    write(folder, "precision.scaler resumed", 0, {"scale": host.precision_plugin.scaler.get_scale()})


class _Course:
    def __init__(self) -> None:
        self.scales: list[float] = []
        self.weights: list[str] = []

    def note(self, scaler: Any, net: nn.Module) -> None:
        self.scales.append(scaler.get_scale())
        self.weights.append(fingerprint(net.state_dict()))

    def facts(self, scaler: Any, net: nn.Module) -> dict[str, Any]:
        return {"enabled": scaler.is_enabled(), "scales": self.scales, "weights": self.weights, **seen(net)}


def _loss(scores: Tensor, labels: Tensor, batch: int) -> Tensor:
    loss = cross_entropy(scores, labels)
    return loss * float("inf") if batch == OVERFLOW else loss


class _Scaled(_Classifier):
    def on_train_start(self) -> None:
        self.course = _Course()

    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        self.course.note(self.trainer.precision_plugin.scaler, self.net)
        return _loss(self.net(batch[0]), batch[1], batch_index)

    def on_train_end(self) -> None:
        scaler = self.trainer.precision_plugin.scaler
        self.course.note(scaler, self.net)
        write(self.folder, "precision.scaler", self.global_rank, self.course.facts(scaler, self.net))


def _loop_over_overflow(host: Any, folder: Path) -> None:
    net, optimizer = set_up(host, "mlp")
    course, scaler = _Course(), host.strategy.precision.scaler
    for number, (pictures, labels) in zip(range(BATCHES), host.setup_dataloaders(loader(shuffle=False)), strict=False):
        course.note(scaler, net)
        optimizer.zero_grad()
        host.backward(_loss(net(pictures), labels, number))
        optimizer.step()
    course.note(scaler, net)
    write(folder, "precision.scaler", host.global_rank, course.facts(scaler, net))
    state = {"net": net, "scaler": scaler.state_dict()}
    host.save(folder / "scaled.ckpt", state)
    scaler.update(1.0)
    scaler.load_state_dict(host.load(folder / "scaled.ckpt", {"net": net})["scaler"])
    write(folder, "precision.scaler resumed", host.global_rank, {"scale": scaler.get_scale()})
