"""The simulated machine: its cards, their core groups, and those that a process sees."""

from __future__ import annotations

import functools
from pathlib import Path

from northbridge_cpu_sim import SimulatedDevice
from northbridge_sdaa.simulated.record import variable
from northbridge_sdaa.simulated.settings import SDAASimSettings

CARD = "TECO_AICARD_01"
"""Name of a card in teco-smi."""


@functools.cache
def core_group() -> SimulatedDevice:
    """Return the properties of this machine's devices, including their number."""
    return SimulatedDevice.read(Path(__file__).with_name("device.toml")).as_set()


def card_of(group: int) -> int:
    """Return the card of a core group, by the group's number in the machine."""
    return group // SDAASimSettings.read().groups


def card_count() -> int:
    """Return the number of cards in the machine."""
    return card_of(core_group().count - 1) + 1


@functools.cache
def visible() -> tuple[int, ...]:
    """Return the core groups that this process sees, in its order; like CUDA, up to the first that does not exist."""
    everything = range(core_group().count)
    chosen = variable("SDAA_VISIBLE_DEVICES")
    if not chosen:
        return tuple(everything)
    found: list[int] = []
    for text in chosen.split(","):
        if not text.strip().isdigit() or int(text) not in everything:
            break
        found.append(int(text))
    return tuple(found)
