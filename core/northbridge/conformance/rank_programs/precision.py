"""Train in mixed precision, and in each of Lightning's precisions for the dtypes inside the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from northbridge.conformance.rank_programs.training import train_models
from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.hosts import build, classifier, fabric, is_trainer, trainer
from northbridge.conformance.runs.models import loader, seen
from northbridge.conformance.runs.scenario import Scenario
from northbridge.errors import UnsupportedError

PRECISIONS = {
    "32-true": ("float32", "float32"),
    "16-true": ("float16", "float16"),
    "bf16-true": ("bfloat16", "bfloat16"),
    "64-true": ("float64", "float64"),
    "16-mixed": ("float16", "float32"),
    "bf16-mixed": ("bfloat16", "float32"),
}
"""The dtypes of what the last layer gives, and of the weights."""


def mixed(scenario: Scenario, folder: Path) -> None:
    """Train each of the scenario's models under autocast in bfloat16; each rank reports."""
    train_models(scenario, folder, "precision.mixed", precision="bf16-mixed")


def dtypes(scenario: Scenario, folder: Path) -> None:
    """Report the dtypes that each precision led to, and which weights did not learn, or what it was refused for."""
    write(folder, "precision.dtypes", 0, {precision: _try(scenario, folder, precision) for precision in PRECISIONS})


def _try(scenario: Scenario, folder: Path, precision: str) -> dict[str, Any]:
    try:
        return _fit(scenario, folder, precision) if is_trainer(scenario.namespace) else _loop(scenario, precision)
    except UnsupportedError as refusal:
        return {"refused": refusal.capability, "said": str(refusal)}


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


def _seen(net: torch.nn.Module) -> dict[str, Any]:
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
