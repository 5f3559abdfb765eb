"""Loading of the simulated chip into a process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import northbridge

STRICT_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "NORTHBRIDGE_CPU_SIM_STREAMS": "deferred",
        "NORTHBRIDGE_CPU_SIM_FRESH": "nan",
        "NORTHBRIDGE_CPU_SIM_FREED": "trap",
        "NORTHBRIDGE_CPU_SIM_CHECK_COLLECTIVES": "1",
    }
)
"""Options under which a correct program computes the same numbers, and a wrong one fails every time.

Not asynchronous errors: a device with an error takes no more work, and the suite causes errors on purpose.
"""

ROUNDING_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "NORTHBRIDGE_CPU_SIM_PRODUCTS": "tf32",
        "NORTHBRIDGE_CPU_SIM_ACCUMULATION": "bfloat16",
        "NORTHBRIDGE_CPU_SIM_ORDER": "other",
        "NORTHBRIDGE_CPU_SIM_DENORMALS": "flushed",
    }
)
"""Options under which the chip rounds as real chips do, so that its numbers are not the CPU's."""


def rounding_claims(environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return the arguments of :class:`northbridge.Capabilities` that the rounding options in ``environ`` change."""
    rounding = {name for name, value in ROUNDING_OPTIONS.items() if environ.get(name) == value}
    coarse = northbridge.no("NORTHBRIDGE_CPU_SIM_PRODUCTS=tf32 reads ten bits of each factor; unset it for all")
    denied = ("float32_products", "float32_convolutions") if "NORTHBRIDGE_CPU_SIM_PRODUCTS" in rounding else ()
    return {"rounds": True, **dict.fromkeys(denied, coarse)} if rounding else {}


class SimBridge(northbridge.Bridge):
    """Compiles the chip on first use, and registers it with torch."""

    compile_backend = "aot_eager"
    missing_compile_backends: Mapping[str, str] = MappingProxyType(
        {"inductor": "it generates no code for a simulated chip"}
    )

    strict_options = STRICT_OPTIONS

    def load(self) -> None:
        from northbridge_cpu_sim.chip import check_host, installed_type

        check_host()
        from northbridge_cpu_sim.collective import SimCCL
        from northbridge_cpu_sim.device import SimDevice
        from northbridge_cpu_sim.settings import SimSettings
        from northbridge_cpu_sim.simulation.installation import install
        from northbridge_cpu_sim.simulation.simulated_device import Library, SimulatedDevice

        if installed_type() == SimDevice.type:
            return
        settings = SimSettings.read()
        install(
            SimulatedDevice(
                type=SimDevice.type,
                label=settings.name,
                count=settings.devices,
                memory=settings.memory,
                one_per_process=settings.one_per_process,
                collective=Library(name=SimCCL.name),
            )
        )

    def detect(self) -> int:
        """Return the configured number of devices: a simulated chip needs no detection."""
        from northbridge_cpu_sim.settings import SimSettings

        return SimSettings.read().devices
