"""Simulated Teco cards: the stand-ins that ``NORTHBRIDGE_SIMULATE=sdaa`` uses for the vendor's software.

``torch_sdaa/`` holds only the vendor's names, and ``teco_smi.py`` is the vendor's command; the modules beside them
implement the names. Everything is derived from ``contract.toml``, not from the vendor's code.
"""

from __future__ import annotations

from pathlib import Path

import northbridge
import northbridge_cpu_sim
from northbridge_sdaa.simulated.settings import SDAASimSettings

_HERE = Path(__file__).parent


@northbridge.hookimpl
def northbridge_simulation() -> northbridge.Simulation:
    """Declare the stand-ins for the vendor's software."""
    settings = SDAASimSettings.read()
    return northbridge.Simulation(
        {"torch_sdaa": _HERE / "torch_sdaa"},
        chip="Teco card",
        page="docs/simulated-teco.md",
        instead={"torch_sdaa.utils.cuda_migrate": 'without cuda_migrate, write torch.sdaa and device "sdaa"'},
        autoloads=("torch_sdaa",) if settings.autoload else (),
        tools={} if settings.smi == "none" else {"teco-smi": _HERE / "teco_smi.py"},
        strict_options=northbridge_cpu_sim.STRICT_OPTIONS,
    )
