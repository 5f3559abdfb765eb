"""Make torch know the device "flint" and the process group "flintccl"."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import northbridge_cpu_sim

_device = northbridge_cpu_sim.SimulatedDevice.read(Path(__file__).parents[1] / "device.toml")
_folder = os.environ.get("FLINT_SERVER") or f"{tempfile.gettempdir()}/flint-{os.getuid()}"
_server = northbridge_cpu_sim.Server(Path(_folder), _device.count)


def _acquire() -> int:
    card = int(os.environ.get("FLINT_CARD", "0"))
    _server.acquire(card)
    return card


northbridge_cpu_sim.install(_device, acquire=_acquire)
