"""Ask for devices in each way that Lightning has words for; train on none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from northbridge.conformance.findings import write
from northbridge.conformance.hosts import fabric, is_trainer, trainer
from northbridge.conformance.scenario import Scenario

FORMS: dict[str, Any] = {
    "1": 1,
    "2": 2,
    "'auto'": "auto",
    "-1": -1,
    "'2'": "2",
    "[0, 1]": [0, 1],
    "'0,1'": "0,1",
    "[1]": [1],
}
"""The ways, as a user writes them."""


def perform(scenario: Scenario, folder: Path) -> None:
    """Build a Trainer or a Fabric for each of :data:`FORMS` and report the devices of its ranks."""
    found: dict[str, list[str]] = {}
    for word, devices in FORMS.items():
        if is_trainer(scenario.face):
            strategy = trainer(scenario, folder, devices=devices).strategy
        else:
            strategy = fabric(scenario, devices=devices).strategy
        ranks = getattr(strategy, "parallel_devices", None) or [strategy.root_device]
        found[word] = [str(device) for device in ranks]
    write(folder, "choosing", 0, found)
