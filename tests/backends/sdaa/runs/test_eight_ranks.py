"""Eight ranks, a core group each, on two cards."""

from __future__ import annotations

from tests.backends.posed.runs.eight_ranks import EightRanks
from tests.backends.posed.runs.fixtures import Run


class TestEightRanks(EightRanks):
    pass


def test_the_log_says_on_how_many_cards_they_run(run: Run) -> None:
    assert "sdaa available: True (simulated), using: 8 devices (2 cards)\n" in run("train.py", "devices=8")
