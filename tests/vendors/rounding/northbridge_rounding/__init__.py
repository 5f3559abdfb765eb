"""The simulated chip, which says that it is real, so that the suite compares it within tolerances.

The options of rounding say how it rounds. With ``ROUNDING_SIMULATED`` set, it says that it is simulated.
"""

from __future__ import annotations

import os

import northbridge


class Device(northbridge.Device):
    type = "roundchip"


class Collective(northbridge.Collective):
    name = "roundccl"


class Bridge(northbridge.Bridge):
    def detect(self) -> int:
        return 4

    def load(self) -> None:
        import northbridge_cpu_sim
        import torch
        from northbridge_cpu_sim.simulation.simulated_device import Library, SimulatedDevice

        if torch._C._get_privateuse1_backend_name() != Device.type:
            library = Library(name=Collective.name)
            northbridge_cpu_sim.install(
                SimulatedDevice(type=Device.type, label="Roundchip", count=4, memory="1GiB", collective=library)
            )


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    simulated = bool(os.environ.get("ROUNDING_SIMULATED"))
    claims = dict.fromkeys(("bfloat16", "float16", "float64", "int64", "sync_batchnorm", "sharding"), northbridge.yes)
    capabilities = northbridge.Capabilities.of_level("C3", simulated=simulated, **claims)
    return northbridge.Backend("rounding", Device(), Collective(), Bridge(), capabilities)
