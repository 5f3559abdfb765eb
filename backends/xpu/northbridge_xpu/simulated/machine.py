"""The simulated machine: its settings, its cards and tiles, and the record of what is used of its variables."""

from __future__ import annotations

import functools
from pathlib import Path

import pydantic

import northbridge
from northbridge_cpu_sim import Record, SimulatedDevice


class XPUSimSettings(northbridge.Settings):
    """Settings of the simulated machine; ``NORTHBRIDGE_CPU_SIM_DEVICES`` is the number of tiles."""

    prefix = "NORTHBRIDGE_XPU_SIM_"

    tiles: int = pydantic.Field(default=2, ge=1, le=2, description="the number of tiles on a card, 1 or 2")


RECORD = Record("torch.xpu", "northbridge_xpu.simulated")

variable = RECORD.variable


@functools.cache
def tile() -> SimulatedDevice:
    """Return the properties of this machine's tiles, including their number."""
    return SimulatedDevice.read(Path(__file__).with_name("device.toml")).as_set()


def card_count() -> int:
    """Return the number of cards in the machine."""
    return -(-tile().count // XPUSimSettings.read().tiles)


@functools.cache
def visible() -> tuple[tuple[int, ...], ...]:
    """Return the devices that this process sees, each with its tiles, by their numbers in the machine.

    The hierarchy and the mask are those of Level Zero: a mask chooses devices, in their own order.
    """
    tiles, size = range(tile().count), XPUSimSettings.read().tiles
    is_composite = variable("ZE_FLAT_DEVICE_HIERARCHY") == "COMPOSITE"
    devices = [tuple(tiles[card * size : (card + 1) * size]) for card in range(card_count())]
    if not is_composite:
        devices = [(each,) for each in tiles]
    mask = variable("ZE_AFFINITY_MASK")
    if not mask:
        return tuple(devices)
    named = {each.strip() for each in mask.split(",")}
    found = []
    for index, device in enumerate(devices):
        parts = tuple(each for part, each in enumerate(device) if f"{index}.{part}" in named) if is_composite else ()
        if str(index) in named or parts:
            found.append(device if str(index) in named else parts)
    return tuple(found)


def device() -> SimulatedDevice:
    """Return the properties of the devices that this process sees: their memory is that of their tiles."""
    one = tile()
    most = max((len(tiles) for tiles in visible()), default=1)
    return one.model_copy(update={"memory": int(one.memory) * most})
