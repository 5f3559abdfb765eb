"""The simulated server: its cards, their module ids, and the properties of each generation."""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass
from pathlib import Path

import northbridge
from northbridge_cpu_sim import Server, SimulatedDevice
from northbridge_hpu.simulated.settings import HPUSimSettings

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
        return tuple(module for module in _MODULES if module < count) if count <= len(_MODULES) else _reversed(count)
    if len(chosen) != count:
        name, text = HPUSimSettings.variable("modules"), ",".join(map(str, chosen))
        raise northbridge.SettingsError(
            f"{name}={text!r} names {len(chosen)} of {count} cards. Fix: unset it",
            variable=name,
        )
    return chosen


def _reversed(count: int) -> tuple[int, ...]:
    return tuple(reversed(range(count)))


@functools.cache
def server() -> Server:
    """Return the server, which knows the holders of its cards."""
    return Server(HPUSimSettings.read().folder, device_count(), variable=HPUSimSettings.variable("server"))


@functools.cache
def device_count() -> int:
    """Return the number of cards in the server."""
    return card().count
