"""Facts from the vendor's management library, without acquiring a card."""

from __future__ import annotations

import sys

import pytest

import northbridge
from northbridge_hpu import cards


@pytest.fixture(autouse=True)
def simulated() -> None:
    """Let the stand-ins be there: `import torch` or the backend puts them in their place."""
    northbridge.get("hpu")


def test_each_card_has_an_index_a_module_and_a_name() -> None:
    found = cards.cards()

    assert [card.index for card in found] == list(range(8))
    assert sorted(card.module for card in found) == list(range(8))
    assert [card.module for card in found] != list(range(8))
    assert {(card.name, card.total) for card in found} == {("HL-225", 96 * 2**30)}
    assert {card.used for card in found} <= {768 * 2**20, 96 * 2**30}  # this process may hold one
    assert cards.visible_modules() == tuple(sorted(card.module for card in found)) == tuple(range(8))


def test_a_card_that_is_sick_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyhlml

    def fail(device: object) -> None:
        raise pyhlml.HLMLError(1)

    monkeypatch.setattr(pyhlml, "hlmlDeviceGetMemoryInfo", fail)

    assert [(card.used, card.is_held) for card in cards.cards()] == [(None, False)] * 8
    assert cards.visible_modules() == tuple(range(8))


def test_detection_asks_a_card_for_its_module_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyhlml

    for asked in ("Name", "MemoryInfo", "UtilizationRates"):
        monkeypatch.delattr(pyhlml, f"hlmlDeviceGet{asked}")

    assert northbridge.get("hpu").bridge.detect() == 8


def test_a_library_that_the_script_has_opened_stays_open() -> None:
    import pyhlml

    pyhlml.hlmlInit()
    try:
        assert len(cards.cards()) == 8
        assert pyhlml.hlmlDeviceGetCount() == 8
        assert cards.versions() == {"driver": "1.22.0-0000000", "hlml": "hl-1.22.0-simulated"}
    finally:
        pyhlml.hlmlShutdown()


def test_without_the_library_the_users_modules_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyhlml", None)  # how Python marks what is not there
    monkeypatch.setenv("HABANA_VISIBLE_MODULES", "4,5")
    assert cards.visible_modules() == (4, 5)

    monkeypatch.delenv("HABANA_VISIBLE_MODULES")
    with pytest.raises(northbridge.SoftwareMissingError) as caught:
        cards.visible_modules()

    assert str(caught.value) == (
        "the cards' module ids are unknown. Fix: pip install habana-pyhlml, or set HABANA_VISIBLE_MODULES"
    )


def test_a_driver_that_does_not_answer_is_our_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyhlml

    def fail() -> None:
        raise pyhlml.HLMLError(1)

    monkeypatch.setattr(pyhlml, "hlmlInit", fail)

    with pytest.raises(northbridge.DetectionError, match="the HPU's driver does not answer: HLMLError"):
        cards.cards()
