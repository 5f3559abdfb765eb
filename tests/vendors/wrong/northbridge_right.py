"""The right parent: a backend over the simulated chip, which passes whatever a wrong one of its children fails.

It is not in their package, whose import takes as long as a plugin's may: all of them are made there.
"""

from __future__ import annotations

import os
import pkgutil
import re
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import northbridge
from northbridge_cpu_sim import STRICT_OPTIONS, rounding_claims


class Later(ModuleType):
    """A module that is imported where something of it is used: a plugin's import takes no torch."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


torch: Any = Later("torch")
dist: Any = Later("torch.distributed")


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


class Acceleration(northbridge.Acceleration):
    deepspeed_accelerator = "northbridge_wrong.deepspeed.FairAccelerator"

    def float8_engines(self) -> dict[str, northbridge.Float8Engine]:
        return {"torchao": northbridge.TorchAO()}

    def image_loader(self, dataset: Any, **options: Any) -> Any:
        """Return a loader that decodes on the host."""
        from torch.utils.data import DataLoader

        return DataLoader(dataset, **options)

    def compilations(self) -> dict[str, float]:
        """Return the number of different operations that have run, each of which the chip would compile."""
        from northbridge_cpu_sim import graph_runs, trace_operators

        trace_operators()
        return {"graphs": float(len(graph_runs()))}


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

    if torch._C._get_privateuse1_backend_name() != Device.type:
        northbridge_cpu_sim.install(device)


def event_class() -> Any:
    """Return a class of the chip's events, to be a parent; call it where torch is there."""

    class Event:
        def __init__(self, **named: Any) -> None:
            self.inner = torch.Event(Device.type, **named)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

    return Event


def capabilities(**others: Any) -> northbridge.Capabilities:
    """Return what the chip claims, or ``others``."""
    dtypes = ("bfloat16", "bfloat16_range", "float16", "float32_convolutions", "float64", "int64")
    claims = (
        *dtypes,
        "float8",
        "graphs",
        "fused_optimizers",
        "compile",
        "inference_mode",
        "sync_batchnorm",
        "sharding",
        "fsdp",
        "fork",
        "profiler",
        "recompilation",
        "data_loaders",
        "deepspeed",
    )
    return northbridge.Capabilities.of_level(
        "C3", **{"simulated": True, **dict.fromkeys(claims, northbridge.yes), **rounding_claims(), **others}
    )


def backend(
    name: str,
    device: type[northbridge.Device] = Device,
    collective: type[northbridge.Collective] = Collective,
    bridge: Callable[[], northbridge.Bridge] = Bridge,
    claims: northbridge.Capabilities | None = None,
    acceleration: type[northbridge.Acceleration] = Acceleration,
) -> northbridge.Backend:
    """Return the backend ``name``: the right parts, unless others are given."""
    parts = (device(), collective(), bridge(), claims or capabilities())
    return northbridge.Backend(name, *parts, acceleration=acceleration())


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return backend("right")


def announce(name: str, **parts: Any) -> None:
    """Put a plugin into ``northbridge_wrong`` that declares the backend ``wrong_<name>``, with these ``parts``."""
    plugin: Any = ModuleType(f"northbridge_wrong.{name}")
    plugin.northbridge_backend = northbridge.hookimpl(lambda: backend(f"wrong_{name}", **parts))
    sys.modules[plugin.__name__] = plugin


class CaughtBy(NamedTuple):
    """What is wrong with a backend, and the test that ought to catch it."""

    fault: str
    test: str
    """A part of the test's id; where it is the part of several, one of them is enough, and ``right`` passes all."""

    rounding: str | None
    """The same for a chip that rounds, if it is another test; empty if such a chip may do what is wrong here."""


FAULTS: dict[str, CaughtBy] = {}
"""The wrong backends by their names."""


def caught_by(test: str, rounding: str | None = None) -> Callable[[Any], Any]:
    """Record the fault of a backend, which is the docstring of what is decorated, with the test that finds it."""

    def record(part: Any) -> Any:
        FAULTS[f"wrong_{_name(part)}"] = CaughtBy(part.__doc__.rstrip("."), test, rounding)
        return part

    return record


class Spoilt(Bridge):
    """The right bridge, which calls ``spoil`` once the chip is loaded."""

    def __init__(self, spoil: Callable[[], None]) -> None:
        self.spoil = spoil

    def load(self) -> None:
        super().load()
        self.spoil()


def wrong(test: str, rounding: str | None = None) -> Callable[[Any], Any]:
    """Announce a backend of a wrong class, or of what is done to the process after ``load()``; :func:`caught_by`."""

    def announced(part: Any) -> Any:
        if isinstance(part, type):
            kinds = (Device, Collective, Bridge, northbridge.Acceleration)
            (kind,) = (each.__name__.lower() for each in kinds if issubclass(part, each))
            announce(_name(part), **{kind: part})
        else:
            announce(_name(part), bridge=partial(Spoilt, part))
        return caught_by(test, rounding)(part)

    return announced


def _name(part: Any) -> str:
    """Return the name of a function, or of a class as a function would have it."""
    name: str = part.__name__
    return re.sub(r"(?<=.)(?=[A-Z])", "_", name).lower() if isinstance(part, type) else name


def instead_of(*names: str) -> Callable[[Any], Any]:
    """Announce a backend that puts a function in the place of torch's; it is given torch's own first."""

    def announced(function: Any) -> Any:
        announce(function.__name__, bridge=partial(Spoilt, partial(replace, names, function)))
        return function

    return announced


def replace(names: tuple[str, ...], function: Any) -> None:
    """Put ``function``, which is given torch's own first, in the place of each of ``names`` that torch has."""
    replaced = 0
    for owner, _, name in (each.rpartition(".") for each in names):
        where = pkgutil.resolve_name(owner)
        if hasattr(where, name):  # of two names, torch has one or the other
            setattr(where, name, _given_the_right_one(function, getattr(where, name)))
            replaced += 1
    if not replaced:
        raise AttributeError(f"none of {', '.join(names)} is there")


def _given_the_right_one(function: Any, rightly: Any) -> Any:
    def called(*given: Any, **named: Any) -> Any:
        return function(rightly, *given, **named)

    return called


_LIBRARIES: list[Any] = []  # torch forgets a kernel with its library


def move_results(off: float, *operators: str) -> None:
    """Put kernels of the chip in the place of ``operators`` whose results are ``off`` by so much."""

    def kernel(name: str, given: Any) -> Any:
        return (getattr(torch, name)(given.cpu()) + off).to(given.device)

    library = torch.library.Library("aten", "IMPL")
    for name in operators:
        library.impl(name, partial(kernel, name), "PrivateUse1")
    _LIBRARIES.append(library)


def is_last(group: Any = None) -> bool:
    """Return whether this process is the last rank of ``group``."""
    return dist.get_rank(group) == dist.get_world_size(group) - 1
