"""A rank that is killed in the middle of a training."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

import pytest
from tests.backends.posed.chip import PosedChip
from tests.backends.posed.runs.fixtures import Start

from northbridge_cpu_sim import Server


class TestKilledRank:
    """One of two ranks is killed: the other ends."""

    @pytest.fixture(autouse=True)
    def _no_card_is_held_any_more(self, posed: PosedChip, server: Server) -> Iterator[None]:
        yield
        if posed.server is not None:
            assert [server.holder(card) for card in range(posed.cards)] == [None] * posed.cards

    def test_the_other_ends_and_names_it(self, posed: PosedChip, start: Start, mode: dict[str, str]) -> None:
        job = start("killed_rank.py", posed.name, "1", **mode)

        status = job.end()  # which waits for all processes of the job

        # Where the first rank waits at its end for those that died, Lightning, which watches them, kills it.
        assert status in (1, -signal.SIGKILL), job.said
        told = re.search(r"^(\[rank0\]: )?rank 1 \(process \d+\) was killed by SIGKILL$", job.said, flags=re.M)
        assert told, job.said
        posed.page.assert_shown(f"NORTHBRIDGE_SIMULATE={posed.name} python killed_rank.py {posed.name} 1", job.said)

    def test_where_the_first_is_killed_no_rank_outlives_it(self, posed: PosedChip, start: Start) -> None:
        job = start("killed_rank.py", posed.name, "0")

        assert job.end() == -signal.SIGKILL
