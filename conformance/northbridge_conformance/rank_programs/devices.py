"""Request devices in each form that Lightning accepts; train nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import northbridge
from northbridge_conformance.runs.findings import write
from northbridge_conformance.runs.hosts import fabric, is_trainer, trainer
from northbridge_conformance.runs.scenario import Scenario

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
"""The forms, as a user writes them."""


SECOND = "[1]"


def is_held_by_one_fabric(backend: str, namespace: str) -> bool:
    """Return True if a Fabric, which acquires its device when it asks for it, leaves its process no second one."""
    device = northbridge.get(backend).device
    return not is_trainer(namespace) and device.root(0) == device.root(1)


def perform(scenario: Scenario, folder: Path) -> None:
    """Build a Trainer or a Fabric for each of :data:`FORMS`; report the devices of its ranks, or the error."""
    trains = is_trainer(scenario.namespace)
    found: dict[str, Any] = {}
    for word, devices in FORMS.items():
        try:
            host = trainer(scenario, folder, devices=devices) if trains else fabric(scenario, devices=devices)
            ranks = getattr(host.strategy, "parallel_devices", None) or [host.strategy.root_device]
        except (northbridge.NorthbridgeError, RuntimeError) as error:
            found[word] = {"error": f"{type(error).__name__}: {error}"}
            continue
        found[word] = [str(device) for device in ranks]
    write(folder, "devices", 0, found)
