"""The simulated chip: a real torch device whose memory and arithmetic are the host's.

It is a backend of its own, ``cpu_sim``, and the basis of other vendors' simulations. A :class:`SimulatedDevice`
describes the chip, and :func:`install` installs it. A :class:`Server` gives each card to one process, and a
:class:`Record` lists the used parts of the vendor's software.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import northbridge

if TYPE_CHECKING:
    from northbridge_cpu_sim.bridge import (
        ROUNDING_OPTIONS as ROUNDING_OPTIONS,
        STRICT_OPTIONS as STRICT_OPTIONS,
        rounding_claims as rounding_claims,
    )
    from northbridge_cpu_sim.chip import (
        Kernel as Kernel,
        graph_runs as graph_runs,
        mark_graph as mark_graph,
        record_kernels as record_kernels,
        recorded_kernels as recorded_kernels,
        trace_operators as trace_operators,
    )
    from northbridge_cpu_sim.errors import (
        BuildError as BuildError,
        CardTakenError as CardTakenError,
        DeviceFileError as DeviceFileError,
        FaultError as FaultError,
        ServerError as ServerError,
    )
    from northbridge_cpu_sim.faults.fault import Fault as Fault
    from northbridge_cpu_sim.faults.plan import (
        MetFault as MetFault,
        count_step as count_step,
        faults_met as faults_met,
        planned_faults as planned_faults,
    )
    from northbridge_cpu_sim.simulation.installation import install as install
    from northbridge_cpu_sim.simulation.record import Record as Record
    from northbridge_cpu_sim.simulation.server import Server as Server
    from northbridge_cpu_sim.simulation.simulated_device import SimulatedDevice as SimulatedDevice

_HOMES = {
    "bridge": ("ROUNDING_OPTIONS", "STRICT_OPTIONS", "rounding_claims"),
    "chip": ("Kernel", "graph_runs", "mark_graph", "record_kernels", "recorded_kernels", "trace_operators"),
    "errors": ("BuildError", "CardTakenError", "DeviceFileError", "FaultError", "ServerError"),
    "faults.fault": ("Fault",),
    "faults.plan": ("MetFault", "count_step", "faults_met", "planned_faults"),
    "simulation.installation": ("install",),
    "simulation.record": ("Record",),
    "simulation.server": ("Server",),
    "simulation.simulated_device": ("SimulatedDevice",),
}
_HOME = {name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names}

__all__ = sorted([*_HOME, "module", "northbridge_backend"])  # pyright: ignore[reportUnsupportedDunderAll]  # as in northbridge

_CLAIMED = (
    "inference_mode",
    "bfloat16",
    "bfloat16_range",
    "float16",
    "float64",
    "int64",
    "float32_convolutions",
    "sync_batchnorm",
    "sharding",
    "fsdp",
    "fork",
    "graphs",
    "profiler",
    "compile",
    "fused_optimizers",
    "recompilation",
    "deepspeed",
)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    """Declare the chip, without compiling or loading anything."""
    from importlib.util import find_spec

    from northbridge_cpu_sim.acceleration import SimAcceleration
    from northbridge_cpu_sim.bridge import SimBridge, rounding_claims
    from northbridge_cpu_sim.collective import SimCCL
    from northbridge_cpu_sim.device import SimDevice

    return northbridge.Backend(
        "cpu_sim",
        SimDevice(),
        SimCCL(),
        SimBridge(),
        northbridge.Capabilities.of_level(
            "C3",
            data_loaders=northbridge.no("it has no decoder"),
            float8=northbridge.yes
            if find_spec("torchao")
            else northbridge.Claim("unknown", "torchao, its engine, is not installed"),
            **{"simulated": True, **dict.fromkeys(_CLAIMED, northbridge.yes), **rounding_claims()},
        ),
        acceleration=SimAcceleration(),
    )


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
