"""Teco cards that are not there: what ``NORTHBRIDGE_SIMULATE=sdaa`` puts in the place of the vendor's software.

``torch_sdaa/`` holds the vendor's names and nothing else, and ``teco_smi.py`` is the vendor's command; what the names
do is in the modules beside them. All of it is made from ``contract.toml``, and from no line of the vendor's code.
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
        autoloads=("torch_sdaa",) if settings.autoload else (),
        tools={} if settings.smi == "none" else {"teco-smi": _HERE / "teco_smi.py"},
        strict_options=northbridge_cpu_sim.STRICT_OPTIONS,
    )
