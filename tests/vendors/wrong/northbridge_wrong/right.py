"""The right parent: a backend over the simulated chip, which passes whatever a wrong one of its children fails."""

from __future__ import annotations

import os
from typing import Any

import northbridge
from northbridge_cpu_sim import STRICT_OPTIONS


class Device(northbridge.Device):
    type = "fairchip"


class Collective(northbridge.Collective):
    name = "fairccl"


class Bridge(northbridge.Bridge):
    compile_backend = "aot_eager"
    missing_compile_backends = {"inductor": "it generates no code for a simulated chip"}
    strict_options = STRICT_OPTIONS

    def detect(self) -> int:
        return simulated().count

    def prepare(self) -> None:
        os.environ.setdefault("FAIRCHIP_QUEUES", "2")

    def load(self) -> None:
        install(simulated())


def simulated(**facts: Any) -> Any:
    """Return the chip that is simulated, with ``facts`` of its own."""
    from northbridge_cpu_sim.simulation.simulated_device import Library, SimulatedDevice

    library = Library(name=Collective.name)
    return SimulatedDevice(
        **{"type": Device.type, "label": "Fair chip", "count": 4, "memory": "1GiB", "collective": library, **facts}
    ).as_set()


def install(device: Any) -> None:
    """Bring the chip into the process, once."""
    import northbridge_cpu_sim
    import torch

    if torch._C._get_privateuse1_backend_name() != Device.type:
        northbridge_cpu_sim.install(device)


def event_class() -> Any:
    """Return a class of the chip's events, to be a parent; call it where torch is there."""
    import torch

    class Event:
        def __init__(self, **named: Any) -> None:
            self.inner = torch.Event(Device.type, **named)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    return Event


def capabilities(**others: Any) -> northbridge.Capabilities:
    """Return what the chip claims, or ``others``."""
    dtypes = ("bfloat16", "bfloat16_range", "float16", "float32_convolutions", "float64", "int64")
    claims = (*dtypes, "inference_mode", "sync_batchnorm", "sharding", "fork", "profiler")
    return northbridge.Capabilities.of_level(
        "C3", **{"simulated": True, **dict.fromkeys(claims, northbridge.yes), **others}
    )


def backend(
    name: str,
    device: type[northbridge.Device] = Device,
    collective: type[northbridge.Collective] = Collective,
    bridge: type[northbridge.Bridge] = Bridge,
    claims: northbridge.Capabilities | None = None,
) -> northbridge.Backend:
    """Return the backend ``name``: the right parts, unless others are given."""
    return northbridge.Backend(name, device(), collective(), bridge(), claims or capabilities())


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return backend("right")
