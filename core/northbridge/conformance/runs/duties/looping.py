"""Train models in a loop of one's own through Fabric."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch.nn.functional import cross_entropy

from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.hosts import build, fabric, facts
from northbridge.conformance.runs.models import adam, loader
from northbridge.conformance.runs.scenario import Scenario

TOPIC = "training"
"""What is reported, as of a Trainer."""


def perform(scenario: Scenario, folder: Path) -> None:
    """Train each of the scenario's models for two epochs; each rank reports."""
    fabric(scenario).launch(train_all, scenario.models, folder, TOPIC)


def train_all(host: Any, models: tuple[str, ...], folder: Path, topic: str) -> None:
    """Train ``models`` one after another in this rank, which reports on each."""
    for model in models:
        host.seed_everything(1)
        net: Any = build(model)
        optimizer: Any = adam(net.parameters())
        net, optimizer = host.setup(net, optimizer)
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
