"""Eight ranks, a core group each, on two cards."""

from __future__ import annotations

from tests.backends.simulated.runs.eight_ranks import EightRanks


class TestEightRanks(EightRanks):
    log = "sdaa available: True (simulated), using: 8 devices (2 cards)"
