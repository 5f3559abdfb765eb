"""Train models one after another, through the Trainer or in a loop of one's own through Fabric."""

from __future__ import annotations

import csv
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from torch.nn.functional import cross_entropy

from northbridge.conformance.rank_programs.hooks import changed_since
from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.fingerprints import fingerprint
from northbridge.conformance.runs.hosts import build, classifier, fabric, facts, is_trainer, trainer
from northbridge.conformance.runs.models import adam, loader
from northbridge.conformance.runs.scenario import Scenario


def perform(scenario: Scenario, folder: Path) -> None:
    """Train each of the scenario's models for two epochs; each rank reports."""
    train_models(scenario, folder, "training")


def train_models(scenario: Scenario, folder: Path, topic: str, **arguments: Any) -> None:
    """Train each of the scenario's models with ``arguments`` for the Trainer or Fabric; each rank reports."""
    if is_trainer(scenario.namespace):
        for model in scenario.models:
            _fit(scenario, folder, model, f"{topic} {model}", **arguments)
    else:
        fabric(scenario, **arguments).launch(_loop, scenario.models, folder, topic)


def _fit(scenario: Scenario, folder: Path, model: str, topic: str, **arguments: Any) -> None:
    """Train ``model``; each rank reports as ``topic``, and each process that is left as ``after`` it."""
    before = dict(os.environ)
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


def device_stats(scenario: Scenario, folder: Path) -> None:
    """Train with Lightning's DeviceStatsMonitor; rank 0 reports its columns' largest numbers, and the chip's."""
    callbacks: Any = import_module(f"{scenario.namespace}.callbacks")
    loggers: Any = import_module(f"{scenario.namespace}.loggers")
    logger = loggers.CSVLogger(folder, name="training.device_stats")
    arguments = {"logger": logger, "callbacks": [callbacks.DeviceStatsMonitor(cpu_stats=False)], "log_every_n_steps": 1}
    host = trainer(scenario, folder, **arguments)
    host.fit(classifier(scenario.namespace, "mlp", folder, "training.device_stats fit"), loader())
    with (Path(logger.log_dir) / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    largest = {name: max((float(row[name]) for row in rows if row[name]), default=0.0) for name in rows[0]}
    statistics = sorted(host.accelerator.get_device_stats(host.strategy.root_device))
    write(folder, "training.device_stats", host.global_rank, {"columns": largest, "statistics": statistics})
