"""The right parent: a backend over the simulated chip, which passes whatever a wrong one of its children fails.

It is not in their package, whose import takes as long as a plugin's may: all of them are made there.
"""

from __future__ import annotations

import os
import pkgutil
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

    def count(self) -> int:
        return 1 if "FAIRCHIP_CARD" in os.environ else super().count()


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
    deepspeed_accelerator = "northbridge_cpu_sim.deepspeed.SimAccelerator"

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


PARTS = {part.__name__: part for part in (Device, Collective, Bridge, Acceleration)}


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


def capabilities(**others: Any) -> northbridge.Capabilities:
    """Return what the chip claims, or ``others``.

    Where ``FAIRCHIP_REAL`` is set, it does not say how it rounds, and that it is real if that is 1.
    """
    claims = (
        "bfloat16 bfloat16_range float16 float32_convolutions float64 int64 float8 graphs fused_optimizers compile"
        " inference_mode sync_batchnorm sharding fsdp fork profiler recompilation data_loaders deepspeed"
    )
    real = os.environ.get("FAIRCHIP_REAL")
    claimed = {**dict.fromkeys(claims.split(), northbridge.yes), **({} if real else rounding_claims()), **others}
    return northbridge.Capabilities.of_level("C3", simulated=real != "1", **claimed)


def backend(name: str, claims: northbridge.Capabilities | None = None, **parts: Any) -> northbridge.Backend:
    """Return the backend ``name``: the right parts, unless others are given."""
    made = {part.lower(): parts.get(part, right)() for part, right in PARTS.items()}
    return northbridge.Backend(name, capabilities=claims or capabilities(), **made)


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    return backend("right")


class CaughtBy(NamedTuple):
    """What is wrong with a backend, and the test that ought to catch it."""

    fault: str
    test: str
    """A part of the test's id; where it is the part of several, one of them is enough, and ``right`` passes all."""

    rounding: str | None = None
    """The same for a chip that rounds, if it is another test; empty if such a chip may do what is wrong here."""


FAULTS: dict[str, CaughtBy] = {}
"""The wrong backends by their names."""


def wrong(test: str, *names: str, rounding: str | None = None, **others: Any) -> Callable[[Any], Any]:
    """Announce a backend with a function in the place of another, and record the test that finds this fault.

    The fault is the docstring of the function, which is given the right function first. ``names`` are that one's: a
    part's, such as ``Device.seed``, or the path of torch's; of two paths, torch has one or the other. Without names,
    the function is called once the chip is loaded. ``others`` are other parts than the right ones, and other claims.
    """

    def announced(function: Any) -> Any:
        name = function.__name__
        FAULTS[f"wrong_{name}"] = CaughtBy(function.__doc__.rstrip("."), test, rounding)
        parts = {part: others[part] for part in PARTS if part in others}
        claimed = {claim: others[claim] for claim in others if claim not in PARTS}
        part, _, attribute = names[0].partition(".") if names else ("", "", "")
        wrongly = function
        if part not in PARTS:
            part, attribute = "Bridge", "load"
            wrongly = partial(_load, partial(replace, names, function) if names else function)
        rightly = getattr(PARTS[part], attribute)
        given = _given_the_right_one(wrongly, rightly)
        attributes = {attribute: given if callable(rightly) else property(given)}
        plugin: Any = ModuleType(f"northbridge_wrong.{name}")
        parts[part] = type(part, (PARTS[part],), {**attributes, "__module__": plugin.__name__})
        plugin.__dict__.update(parts)  # where pickle looks for their classes
        plugin.northbridge_backend = northbridge.hookimpl(
            lambda: backend(f"wrong_{name}", capabilities(**claimed), **parts)
        )
        sys.modules[plugin.__name__] = plugin
        return function

    return announced


def _load(spoil: Callable[[], None], load: Any, bridge: Bridge) -> None:
    load(bridge)
    spoil()


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


def is_ours(tensor: Any) -> bool:
    """Return whether ``tensor`` is on the chip."""
    return tensor.device.type == Device.type


def is_last(group: Any = None) -> bool:
    """Return whether this process is the last rank of ``group``."""
    return dist.get_rank(group) == dist.get_world_size(group) - 1
