"""What the vendor calls experimental, and everybody asks for the generation of the cards."""

from __future__ import annotations

import enum

from northbridge_hpu.simulated.machine import generation


class synDeviceType(enum.IntEnum):
    """The generations; their numbers are the simulation's own."""

    synDeviceGaudi = 1
    synDeviceGaudi2 = 2
    synDeviceGaudi3 = 3


def _get_device_type() -> int:
    """Return the generation of the server's cards; no card is taken."""
    return generation().number
