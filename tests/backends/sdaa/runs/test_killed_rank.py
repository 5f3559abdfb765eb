"""A rank that is killed in the middle of a training."""

from __future__ import annotations

from tests.backends.simulated.runs.killed_rank import KilledRank


class TestKilledRank(KilledRank):
    pass
