"""On how many cards devices lie, for people to read."""

from __future__ import annotations

from collections.abc import Collection

import pytest

import northbridge
from northbridge.discovery.cards import counted_cards, on_cards


class Chip(northbridge.Device):
    type = "cpu"


class CCL(northbridge.Collective):
    name = "ccl"


class ACard(northbridge.Bridge):
    def load(self) -> None:
        """Nothing: these tests count."""


class AQuarter(ACard):
    def count_cards(self, devices: Collection[int], *, total: int) -> int:
        return len({device // 4 for device in devices})


class Silent(ACard):
    def count_cards(self, devices: Collection[int], *, total: int) -> int:
        raise northbridge.DetectionError("`acme-smi` did not answer", backend="acme")


def backend(bridge: northbridge.Bridge) -> northbridge.Backend:
    return northbridge.Backend("acme", Chip(), CCL(), bridge)


@pytest.mark.parametrize(
    ("bridge", "expected"), [(ACard(), None), (AQuarter(), 2)], ids=["a device is a card", "a device is a quarter"]
)
def test_the_bridge_tells(bridge: northbridge.Bridge, expected: int | None) -> None:
    assert counted_cards(backend(bridge), [3, 4], total=8) == expected


def test_unknown_cards_are_recorded_and_stop_nothing() -> None:
    assert counted_cards(backend(Silent()), [0], total=1) is None

    assert northbridge.Entry("acme", "cards not counted", "`acme-smi` did not answer") in northbridge.record()


@pytest.mark.parametrize(("cards", "words"), [(None, ""), (1, " (1 card)"), (8, " (8 cards)")])
def test_cards_follow_the_number_of_devices(cards: int | None, words: str) -> None:
    assert on_cards(cards) == words
