"""A rank that is killed in the middle of a training."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

import pytest
from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.runs.fixtures import Start

from northbridge_cpu_sim import Server


class TestKilledRank:
    """One of two ranks is killed: the other ends."""

    @pytest.fixture(autouse=True)
    def _no_card_is_held_any_more(self, sim: SimChip, server: Server) -> Iterator[None]:
        yield
        if sim.server is not None:
            assert [server.holder(card) for card in range(sim.cards)] == [None] * sim.cards

    def test_the_other_ends_and_names_it(self, sim: SimChip, start: Start, mode: dict[str, str]) -> None:
        job = start("killed_rank.py", sim.name, "1", **mode)

        status = job.end()  # which waits for all processes of the job

        # Where the first rank waits at its end for those that died, Lightning, which watches them, kills it.
        assert status in (1, -signal.SIGKILL), job.said
        told = re.search(r"^(\[rank0\]: )?rank 1 \(process \d+\) was killed by SIGKILL$", job.said, flags=re.M)
        assert told, job.said
        sim.page.assert_shown(f"NORTHBRIDGE_SIMULATE={sim.name} python killed_rank.py {sim.name} 1", job.said)

    def test_where_the_first_is_killed_no_rank_outlives_it(self, sim: SimChip, start: Start) -> None:
        job = start("killed_rank.py", sim.name, "0")

        assert job.end() == -signal.SIGKILL
