"""The line of the log that says which devices a Trainer found and uses."""

from __future__ import annotations

from typing import Any


def device_line(trainer: Any) -> str:
    """Return the line for a Trainer whose accelerator is ours."""
    backend = trainer.accelerator.backend
    simulated = " (simulated)" if backend.capabilities.simulated else ""
    devices = trainer.num_devices
    return f"{backend.name} available: True{simulated}, using: {devices} device{'s' if devices != 1 else ''}"
