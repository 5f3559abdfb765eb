"""Simulated Teco cards: the stand-ins that ``NORTHBRIDGE_SIMULATE=sdaa`` uses for the vendor's software.

``vendor_import.py`` has the table of the vendor's modules and their names, which the modules beside it implement, and
``teco_smi.py`` is the vendor's command. Both follow what is public about the vendor's software, and copy none of it.
"""

from __future__ import annotations

from pathlib import Path

import northbridge
import northbridge_cpu_sim
from northbridge_sdaa.simulated.machine import SDAASimSettings


@northbridge.hookimpl
def northbridge_simulation() -> northbridge.Simulation:
    """Declare the stand-ins for the vendor's software."""
    settings = SDAASimSettings.read()
    return northbridge.Simulation(
        {"torch_sdaa": f"{__name__}.vendor_import"},
        chip="Teco card",
        instead={"torch_sdaa.utils.cuda_migrate": 'without cuda_migrate, write torch.sdaa and device "sdaa"'},
        autoloads=("torch_sdaa",) if settings.autoload else (),
        tools={} if settings.smi == "none" else {"teco-smi": Path(__file__).with_name("teco_smi.py")},
        strict_options=northbridge_cpu_sim.STRICT_OPTIONS,
    )
