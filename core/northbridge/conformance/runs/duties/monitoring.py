"""Log the chip's own statistics while training."""

from __future__ import annotations

import csv
from importlib import import_module
from pathlib import Path
from typing import Any

from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.hosts import classifier, trainer
from northbridge.conformance.runs.models import loader
from northbridge.conformance.runs.scenario import Scenario


def perform(scenario: Scenario, folder: Path) -> None:
    """Train with Lightning's DeviceStatsMonitor; rank 0 reports its columns' largest numbers, and the chip's."""
    callbacks: Any = import_module(f"{scenario.namespace}.callbacks")
    loggers: Any = import_module(f"{scenario.namespace}.loggers")
    logger = loggers.CSVLogger(folder, name="monitoring")
    arguments = {"logger": logger, "callbacks": [callbacks.DeviceStatsMonitor(cpu_stats=False)], "log_every_n_steps": 1}
    host = trainer(scenario, folder, **arguments)
    host.fit(classifier(scenario.namespace, "mlp", folder, "monitoring fit"), loader())
    with (Path(logger.log_dir) / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    largest = {name: max((float(row[name]) for row in rows if row[name]), default=0.0) for name in rows[0]}
    statistics = sorted(host.accelerator.get_device_stats(host.strategy.root_device))
    write(folder, "monitoring", host.global_rank, {"columns": largest, "statistics": statistics})
