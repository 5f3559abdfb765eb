from __future__ import annotations

import os

import pytest

from northbridge.processes import inheritance
from northbridge.processes.inheritance import forget, hand_down, handed_down, heirs_listen

WORD = "_NORTHBRIDGE_TEST"


@pytest.fixture(autouse=True)
def no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inheritance, "_words", {})
    monkeypatch.delenv(WORD, raising=False)


def test_a_word_is_in_the_environment_while_ranks_are_started_and_at_no_other_time() -> None:
    hand_down(WORD, "8 devices")

    before = os.environ.get(WORD)
    with heirs_listen():
        inside = os.environ.get(WORD)

    assert (before, inside, os.environ.get(WORD)) == (None, "8 devices", None)
    assert handed_down(WORD) == "8 devices"


def test_an_heir_hears_the_word_and_may_have_another_for_its_own_heirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORD, "of the parent")

    assert handed_down(WORD) == "of the parent"
    hand_down(WORD, "its own")
    with heirs_listen():
        assert os.environ[WORD] == "its own"
    assert os.environ[WORD] == "of the parent"


def test_a_word_that_is_forgotten_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WORD, "of the parent")
    hand_down(WORD, "its own")

    forget(WORD)

    assert handed_down(WORD) is None
