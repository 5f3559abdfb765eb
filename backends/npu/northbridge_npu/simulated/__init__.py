"""Simulated Ascend NPUs: the stand-ins that ``NORTHBRIDGE_SIMULATE=npu`` uses for the vendor's software.

``vendor_import.py`` has the table of the vendor's modules and their names, which the modules beside it implement, and
``npu_smi.py`` is the vendor's command. Both follow what is public about the vendor's software, and copy none of it.
"""

from __future__ import annotations

from pathlib import Path

import northbridge
import northbridge_cpu_sim
from northbridge_npu.simulated.machine import NPUSimSettings


@northbridge.hookimpl
def northbridge_simulation() -> northbridge.Simulation:
    """Declare the stand-ins for the vendor's software."""
    settings = NPUSimSettings.read()
    tools = {"npu-smi": Path(__file__).with_name("npu_smi.py")} if settings.smi != "none" else {}
    autoloads = ("torch_npu",) if settings.autoload else ()
    return northbridge.Simulation(
        {"torch_npu": f"{__name__}.vendor_import"},
        "Ascend NPU",
        autoloads=autoloads,
        instead={"torch_npu.contrib.transfer_to_npu": 'without transfer_to_npu, write torch.npu and device "npu"'},
        strict_options=northbridge_cpu_sim.STRICT_OPTIONS,
        tools=tools,
    )
