"""The simulated machine: its cards, their core groups, and which of these a process sees."""

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
    """Return what one device of this machine is, and how many there are."""
    return SimulatedDevice.read(Path(__file__).with_name("device.toml")).as_set()


def card_of(group: int) -> int:
    """Return the card on which a core group of the machine lies, by its number."""
    return group // SDAASimSettings.read().groups


def card_count() -> int:
    """Return how many cards stand in the machine."""
    return card_of(core_group().count - 1) + 1


@functools.cache
def visible() -> tuple[int, ...]:
    """Return the core groups that this process sees, in its order: as CUDA does, up to the first that is not there."""
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
