"""A rank that is killed in the middle of a training."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from tests.backends.hpu.runs.conftest import Start
from tests.backends.hpu.runs.page import assert_shown

from northbridge_cpu_sim import Server


@pytest.mark.parametrize("mode", ["0", "1"], ids=["eager", "lazy"])
def test_the_other_ends_and_names_it(start: Start, server: Path, mode: str) -> None:
    job = start("killed_rank.py", "1", PT_HPU_LAZY_MODE=mode)

    status = job.end()  # which waits for all processes of the job

    # On Gaudi the first rank waits at its end for those that died; Lightning, which watches them, then kills it.
    assert status in (1, -signal.SIGKILL), job.said
    assert re.search(r"^(\[rank0\]: )?rank 1 \(process \d+\) was killed by SIGKILL$", job.said, flags=re.M), job.said
    assert [Server(server, 8).holder(card) for card in (0, 1)] == [None, None]
    assert_shown("NORTHBRIDGE_SIMULATE=hpu python killed_rank.py 1", job.said)


def test_where_the_first_is_killed_no_rank_outlives_it(start: Start, server: Path) -> None:
    job = start("killed_rank.py", "0")

    assert job.end() == -signal.SIGKILL
    assert [Server(server, 8).holder(card) for card in (0, 1)] == [None, None]
