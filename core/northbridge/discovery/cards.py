"""Number of cards behind devices, for chips with several devices on a card."""

from __future__ import annotations

from collections.abc import Collection

from northbridge.backend import Backend
from northbridge.errors import NorthbridgeError
from northbridge.process_record import note


def counted_cards(backend: Backend, devices: Collection[int], *, total: int) -> int | None:
    """Ask the bridge for the number of cards, for display; None if it cannot tell, and the record says why."""
    try:
        return backend.bridge.count_cards(devices, total=total)
    except NorthbridgeError as error:
        note(backend.name, "cards not counted", str(error), problem=True)
        return None


def on_cards(cards: int | None) -> str:
    """Return " (1 card)", to follow a number of devices; empty if the number of cards is unknown."""
    return "" if cards is None else f" ({cards} card{'s' if cards != 1 else ''})"
