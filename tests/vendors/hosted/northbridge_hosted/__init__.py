"""The simulated chip as a chip without a communication library or pinned memory: its plugin names HostCollective.

With ``HOSTED_ALONE`` set, its plugin says None instead.
"""

from __future__ import annotations

import os

import northbridge
from northbridge_cpu_sim import STRICT_OPTIONS, rounding_claims


class Device(northbridge.Device):
    type = "hostedchip"


class Bridge(northbridge.Bridge):
    strict_options = STRICT_OPTIONS

    def detect(self) -> int:
        return 4

    def load(self) -> None:
        import northbridge_cpu_sim
        import torch
        from northbridge_cpu_sim.simulation.simulated_device import Library, SimulatedDevice

        if torch._C._get_privateuse1_backend_name() != Device.type:
            unused = Library(name="unusedccl")
            northbridge_cpu_sim.install(
                SimulatedDevice(type=Device.type, label="Hosted chip", count=4, memory="1GiB", collective=unused)
            )


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    alone = bool(os.environ.get("HOSTED_ALONE"))
    dtypes = ("bfloat16", "float16", "float64", "int64")
    ranks = () if alone else ("sync_batchnorm", "sharding", "fsdp")
    claims = {"simulated": True, **dict.fromkeys((*dtypes, *ranks), northbridge.yes), **rounding_claims()}
    unpinned = northbridge.no("it copies from any memory")
    capabilities = northbridge.Capabilities.of_level("C2" if alone else "C3", pinned_memory=unpinned, **claims)
    return northbridge.Backend(
        "hosted", Device(), None if alone else northbridge.HostCollective(), Bridge(), capabilities
    )
