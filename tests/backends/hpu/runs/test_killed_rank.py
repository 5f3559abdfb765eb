"""A rank that is killed in the middle of a training; on Gaudi the first waits at its end for those that died."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.backends.simulated.runs.killed_rank import KilledRank

from northbridge_cpu_sim import Server


class TestKilledRank(KilledRank):
    @pytest.fixture(autouse=True)
    def _no_card_is_held_any_more(self, server: Server) -> Iterator[None]:
        yield
        assert [server.holder(card) for card in range(8)] == [None] * 8
