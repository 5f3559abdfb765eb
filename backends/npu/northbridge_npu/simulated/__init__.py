"""Simulated Ascend NPUs: the stand-ins that ``NORTHBRIDGE_SIMULATE=npu`` uses for the vendor's software.

``torch_npu/`` holds only the vendor's names, and ``npu_smi.py`` is the vendor's command; the modules beside them
implement the names. Everything is derived from ``contract.toml``, not from the vendor's code.
"""

from __future__ import annotations

from pathlib import Path

import northbridge
import northbridge_cpu_sim
from northbridge_npu.simulated.settings import NPUSimSettings


@northbridge.hookimpl
def northbridge_simulation() -> northbridge.Simulation:
    """Declare the stand-ins for the vendor's software."""
    settings, folder = NPUSimSettings.read(), Path(__file__).parent
    tools = {"npu-smi": folder / "npu_smi.py"} if settings.smi != "none" else {}
    autoloads = ("torch_npu",) if settings.autoload else ()
    return northbridge.Simulation(
        {"torch_npu": folder / "torch_npu"},
        "Ascend NPU",
        "docs/npu.md",
        autoloads=autoloads,
        instead={"torch_npu.contrib.transfer_to_npu": 'without transfer_to_npu, write torch.npu and device "npu"'},
        strict_options=northbridge_cpu_sim.STRICT_OPTIONS,
        tools=tools,
    )
