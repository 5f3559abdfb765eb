"""The simulated server: its settings, its cards and who holds them, and the record of what is used of its software."""

from __future__ import annotations

import enum
import functools
import os
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pydantic

import northbridge
from northbridge_cpu_sim import CardTakenError, Record, Server, SimulatedDevice


def _split(value: object) -> object:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def _permutation(modules: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if modules is not None and sorted(modules) != list(range(len(modules))):
        raise ValueError(f"{modules} is not a permutation")
    return modules


def _folder(path: Path | None) -> Path | None:
    if path is not None and not path.is_absolute():
        raise ValueError(f"{str(path)!r} is not an absolute path")
    found = next(filter(Path.exists, (path, *path.parents)), None) if path is not None else None
    if found is not None and not found.is_dir():
        raise ValueError(f"{str(found)!r} is not a folder")
    return path


class HPUSimSettings(northbridge.Settings):
    """Settings of the simulated server's cards and software."""

    prefix = "NORTHBRIDGE_HPU_SIM_"

    generation: Literal["1", "2", "3"] = pydantic.Field(default="2", description="1, 2 or 3")
    release: Literal["1.19", "1.22"] = pydantic.Field(
        default="1.22", description="a release of the vendor's software, 1.19 (lazy by default) or 1.22 (eager)"
    )
    timeout: Literal["honoured", "ignored"] = pydantic.Field(
        default="honoured", description="honoured or ignored (whether HCCL raises after timeout=, or waits for ever)"
    )
    modules: Annotated[
        tuple[int, ...] | None, pydantic.BeforeValidator(_split), pydantic.AfterValidator(_permutation)
    ] = pydantic.Field(
        default=None, description="the module id of each card, by index: a permutation such as 1,0,3,2 that"
    )
    server: Annotated[Path | None, pydantic.AfterValidator(_folder)] = pydantic.Field(
        default=None, description="the absolute path of a folder (each folder is a server)"
    )

    @property
    def folder(self) -> Path:
        """The server's folder; the default is one folder for each user of this machine."""
        # Not in the working folder: all processes of a user share the cards.
        return self.server or Path(tempfile.gettempdir(), f"northbridge-hpu-sim-{os.getuid()}")


GRAPHS = (
    "HPUGraph",
    "ModuleCacher",
    "graph",
    "is_current_stream_capturing",
    "make_graphed_callables",
    "wrap_in_hpu_graph",
)
"""Names that ``torch.hpu`` has in lazy mode alone: those of ``torch.hpu.graphs``."""

RECORD = Record(
    "habana_frameworks",
    "habana_dataloader",
    "pyhlml",
    "northbridge_hpu.simulated",
    names={
        **{f"habana_frameworks.torch.hpu.{name}": f"torch.hpu.graphs.{name}" for name in GRAPHS},
        **{f"torch.hpu.{name}": f"torch.hpu.graphs.{name}" for name in GRAPHS},
        "habana_frameworks.torch.core.hpu": "torch.hpu",
        "habana_frameworks.torch.hpu": "torch.hpu",
    },
)

put, set_variable, variable = RECORD.put, RECORD.set_variable, RECORD.variable


# The mapping on the vendor's page about several dockers, completed to eight cards: docs.habana.ai, "Multiple Dockers
# each with Single Workload".
_MODULES = (5, 4, 7, 6, 2, 1, 0, 3)

DRIVER = "1.22.0-0000000"
"""Version of the driver; no real driver has it."""

_NO_HALF = "float16/half is not supported on Gaudi."
_NO_FLOAT8 = "float8 is not supported on Gaudi."


class synDeviceType(enum.IntEnum):
    """The generations, with numbers of the simulation's own."""

    synDeviceGaudi = 1
    synDeviceGaudi2 = 2
    synDeviceGaudi3 = 3


@dataclass(frozen=True)
class Generation:
    """Properties of a card of one generation; the memory is in bytes."""

    number: int
    label: str
    product: str
    memory: int
    lacks: dict[str, str]


_GENERATIONS = {
    "1": Generation(
        1,
        "GAUDI",
        "HL-205",
        32 * 2**30,
        {"float16": _NO_HALF, "float8_e4m3fn": _NO_FLOAT8, "float8_e5m2": _NO_FLOAT8},
    ),
    "2": Generation(2, "GAUDI2", "HL-225", 96 * 2**30, {}),
    "3": Generation(3, "GAUDI3", "HL-325", 128 * 2**30, {}),
}


def generation() -> Generation:
    """Return the generation of this server's cards."""
    return _GENERATIONS[HPUSimSettings.read().generation]


def _get_device_type() -> int:
    """Return the generation of the server's cards; acquires no card."""
    return generation().number


def _is_fp16_supported() -> bool:
    """Return True if the server's cards have float16; acquires no card."""
    return generation().number > 1


def card() -> SimulatedDevice:
    """Return the properties of this server's cards, independent of the mode of the process that will hold one."""
    own = generation()
    device = _described()
    lacks: dict[str, str] = dict(own.lacks)
    lacks.update((str(dtype), sentence) for dtype, sentence in device.lacks.items())
    # The management library counts the cards and their memory before an installation, and without one.
    return device.model_copy(update={"label": own.label, "memory": own.memory, "lacks": lacks}).as_set()


@functools.cache
def _described() -> SimulatedDevice:
    return SimulatedDevice.read(Path(__file__).with_name("device.toml"))


def module_ids() -> tuple[int, ...]:
    """Return the module id of every card, by its index."""
    count = device_count()
    chosen = HPUSimSettings.read().modules
    if chosen is None:
        modules = _MODULES if count <= len(_MODULES) else range(count - 1, -1, -1)
        return tuple(module for module in modules if module < count)
    if len(chosen) != count:
        name, text = HPUSimSettings.variable("modules"), ",".join(map(str, chosen))
        raise northbridge.SettingsError(
            f"{name}={text!r} names {len(chosen)} of {count} cards. Fix: unset it",
            variable=name,
        )
    return chosen


@functools.cache
def server() -> Server:
    """Return the server, which knows the holders of its cards."""
    return Server(HPUSimSettings.read().folder, device_count(), variable=HPUSimSettings.variable("server"))


@functools.cache
def device_count() -> int:
    """Return the number of cards in the server."""
    return card().count


_ACQUIRED = "synStatus=20 [Device already acquired] Device acquire failed."
_FAILED = "synStatus=26 [Generic failure] Device acquire failed."


def acquire() -> int:
    """Acquire the card that HLS_MODULE_ID names, or the first free one without it, and return its index.

    If the named card cannot be acquired, any free one is, with a warning, unless HABANA_VISIBLE_MODULES is set or
    there are fewer cards than ranks. Raises RuntimeError with the vendor's text if no card can be acquired.
    """
    wanted = variable("HLS_MODULE_ID")
    if wanted is None:
        return _acquire_any()
    try:
        return _acquire_module(wanted)
    except RuntimeError as error:
        if variable("HABANA_VISIBLE_MODULES") is not None or device_count() < int(variable("WORLD_SIZE") or 1):
            raise
        warnings.warn(f"module {wanted} cannot be acquired ({error}); any free one is taken", stacklevel=1)
        return _acquire_any()


def _acquire_module(text: str) -> int:
    modules = {str(module): card for card, module in enumerate(module_ids())}
    card = modules.get(text.strip())
    if card is None:
        raise RuntimeError(_FAILED)
    try:
        server().acquire(card)
    except CardTakenError:
        raise RuntimeError(_ACQUIRED) from None
    return card


def _acquire_any() -> int:
    for card in range(device_count()):
        try:
            server().acquire(card)
        except CardTakenError:
            continue
        return card
    raise RuntimeError(_ACQUIRED)
