"""The simulated machine: its settings, its cards and core groups, and the record of what is used of its software."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Literal

import pydantic

import northbridge
from northbridge_cpu_sim import Record, SimulatedDevice


class SDAASimSettings(northbridge.Settings):
    """Settings of the simulated machine; ``NORTHBRIDGE_CPU_SIM_DEVICES`` is the number of devices."""

    prefix = "NORTHBRIDGE_SDAA_SIM_"

    groups: int = pydantic.Field(
        default=4, ge=1, le=8, description="the number of core groups on a card, from 1 to 8, mostly 4 or 3"
    )
    registration: Literal["renamed", "patched"] = pydantic.Field(
        default="renamed", description="renamed (torch's spare device type) or patched (a torch that knows the chip)"
    )
    smi: Literal["1.15", "1.10", "none"] = pydantic.Field(
        default="1.15", description="1.15 (a row is a card), 1.10 (a row is a core group) or none (not installed)"
    )
    autoload: bool = pydantic.Field(
        default=False, description="1 or 0 (whether `import torch` imports the vendor's package)"
    )


RECORD = Record("torch_sdaa", "northbridge_sdaa.simulated", names={"torch_sdaa.sdaa": "torch.sdaa"})

put, variable = RECORD.put, RECORD.variable


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
