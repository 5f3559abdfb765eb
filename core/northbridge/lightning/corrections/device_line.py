"""The line of the log that says which devices a Trainer found and uses."""

from __future__ import annotations

from typing import Any

from northbridge.discovery.cards import counted_cards, on_cards
from northbridge.discovery.present import detect


def device_line(trainer: Any) -> str:
    """Return the line for a Trainer whose accelerator is ours."""
    backend = trainer.accelerator.backend
    simulated = " (simulated)" if backend.capabilities.simulated else ""
    devices = trainer.device_ids
    cards = on_cards(counted_cards(backend, devices, total=detect(backend)))
    used = f"{len(devices)} device{'s' if len(devices) != 1 else ''}{cards}"
    return f"{backend.name} available: True{simulated}, using: {used}"
