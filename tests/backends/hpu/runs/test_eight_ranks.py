"""Eight ranks on one server."""

from __future__ import annotations

from tests.backends.simulated.runs.eight_ranks import EightRanks


class TestEightRanks(EightRanks):
    log = "hpu available: True (simulated), using: 8 devices"
