"""The line of the log that says which devices a Trainer found and uses."""

from __future__ import annotations

from typing import Any

from northbridge.cards import counted_cards, on_cards


def device_line(trainer: Any) -> str:
    """Return the line for a Trainer whose accelerator is ours."""
    backend = trainer.accelerator.backend
    simulated = " (simulated)" if backend.capabilities.simulated else ""
    devices = trainer.device_ids
    used = f"{len(devices)} device{'s' if len(devices) != 1 else ''}{on_cards(counted_cards(backend, devices))}"
    return f"{backend.name} available: True{simulated}, using: {used}"
