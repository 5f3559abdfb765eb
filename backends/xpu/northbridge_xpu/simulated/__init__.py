"""Simulated Intel GPUs: ``NORTHBRIDGE_SIMULATE=xpu`` makes torch look like one that was built for them.

There is no vendor's package to stand in for. torch's own ``torch/xpu`` runs over stand-ins for names of ``torch._C``,
and ``xpu_smi.py`` is Intel's command.
"""

from __future__ import annotations

from pathlib import Path

import northbridge
import northbridge_cpu_sim


@northbridge.hookimpl
def northbridge_simulation() -> northbridge.Simulation:
    """Declare the module that changes torch, and the tool."""
    return northbridge.Simulation(
        {},
        chip="Intel GPU",
        built_in=f"{__name__}.vendor_import",
        tools={"xpu-smi": Path(__file__).with_name("xpu_smi.py")},
        strict_options=northbridge_cpu_sim.STRICT_OPTIONS,
    )
