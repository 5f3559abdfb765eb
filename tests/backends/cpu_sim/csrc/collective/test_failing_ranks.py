"""One of several ranks is lost, or calls something else: the others are told which, and how, within the timeout."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.backends.cpu_sim.conftest import Ranks, refused

Lose = Callable[..., list[str]]
PROGRAMS = Path(__file__).with_name("failing_programs.py")
LOST = 2
BUSY_S = 15.0
"""The extra time beyond the timeout, for a busy machine."""


@pytest.fixture(params=["1", "0"], ids=["checked", "unchecked"])
def lose(start_ranks: Callable[..., Ranks], request: pytest.FixtureRequest) -> Lose:
    """Run a function of failing_programs.py on four ranks and return what the survivors were told."""

    def run(function: str, lost: int = LOST, timeout_s: float = 5.0, within_s: float = 5.0 + BUSY_S) -> list[str]:
        ranks = start_ranks(
            function,
            4,
            environ={
                "LOST": str(lost),
                "TIMEOUT_S": str(timeout_s),
                "NORTHBRIDGE_CPU_SIM_CHECK_COLLECTIVES": request.param,
            },
            programs=PROGRAMS,
        )
        said = [ranks.said(rank) for rank in range(4) if rank != lost]
        with contextlib.suppress(ProcessLookupError):
            os.kill(ranks.processes[lost].pid, signal.SIGCONT)
        last = ranks.said(lost)  # which ends
        assert ranks.status(lost) in (0, 1, -signal.SIGKILL), last
        for seconds in (float(found) for each in said for found in re.findall(r"^after ([\d.]+) s$", each, re.M)):
            assert seconds < within_s, said
        return [line for each in said for line in refused(each)]

    return run


@pytest.mark.parametrize("lost", [2, 0])
def test_a_stopped_rank_is_named_and_ends_once_it_goes_on(lose: Lose, lost: int) -> None:
    told = lose("stopped", lost)

    assert len(told) == 3
    for each in told:
        assert re.search(
            rf"simccl's all_reduce on rank \d of 4 failed: rank {lost} \(process \d+\) is stopped", each
        ), each
        assert "its last call in this group is #1 all_reduce of float32[3] by sum (done)" in each
        assert "this was call #2 of the default group, all_reduce of float32[3] by sum" in each
        assert each.count("(process ") == 1, each


@pytest.mark.parametrize("lost", [2, 0])
def test_a_killed_rank_is_named_at_once(lose: Lose, lost: int) -> None:
    told = lose("killed", lost, timeout_s=100, within_s=BUSY_S)

    assert len(told) == 3
    for each in told:
        assert re.search(rf"simccl's all_reduce on rank \d of 4 failed: rank {lost} \(process \d+\) has ended", each), (
            each
        )
        assert "this was call #2 of the default group, all_reduce of float32[3] by sum" in each
        assert each.count("(process ") == 1, each


def test_killed_rank_of_a_subgroup_has_its_global_number(lose: Lose) -> None:
    (told,) = lose("killed_in_a_subgroup", lost=3, timeout_s=100, within_s=BUSY_S)

    assert re.search(r"simccl's all_reduce on rank 1 failed: rank 3 \(process \d+\) has ended", told), told
    assert "(ranks 1, 3), all_reduce of float32[3] by sum" in told


def test_a_rank_that_is_killed_within_the_call_is_named(lose: Lose) -> None:
    told = lose("killed_in_the_call", timeout_s=100, within_s=BUSY_S)

    for each in told:
        assert re.search(r"failed: rank 2 \(process \d+\) has ended", each), each
        assert each.count("(process ") == 1, each


def test_a_rank_that_skips_a_call_is_named(lose: Lose) -> None:
    told = lose("skips")

    assert len(told) == 3
    for each in told:
        assert re.search(r"failed: rank 2 \(process \d+\) is alive and has not called it; its last call", each), each
        assert "#1 all_reduce of float32[3] by sum (done)" in each
        assert each.count("(process ") == 1, each


def test_who_receives_in_vain_is_told_of_the_sender(lose: Lose) -> None:
    (told,) = lose("receives_in_vain")

    assert re.search(r"simccl's recv on rank 0 of 4 failed: rank 2 \(process \d+\) is stopped", told)
    assert "this was send or receive #1 of the default group, recv of float32[3] from rank 2" in told


def test_lost_rank_is_named_to_indirect_receivers(lose: Lose) -> None:
    told = lose("pipeline", timeout_s=100, within_s=BUSY_S)

    assert len(told) == 2
    for rank, each in enumerate(told):
        assert re.search(rf"simccl's recv on rank {rank} of 4 failed: rank 2 \(process \d+\) has ended", each), each
        assert "its last call in this group is send or receive #1 recv of float32[2] from rank 3 (done)" in each


def test_a_rank_that_never_started_is_named(start_ranks: Callable[..., Ranks]) -> None:
    ranks = start_ranks("never_started", 4, programs=PROGRAMS, only=[0, 1, 3])

    for rank, said in zip((0, 1, 3), (ranks.said(rank) for rank in range(3)), strict=True):
        (each,) = refused(said)
        assert f"simccl's making of the default group on rank {rank} of 4 failed: " in each
        assert " for rank 2, which did not join: it never started, " in each


def test_every_difference_is_told_to_both_ranks(on_ranks: Callable[..., list[str]]) -> None:
    for rank, said in enumerate(on_ranks("different", programs=PROGRAMS)):
        names, shapes, dtypes, reductions, roots, parts, later = refused(said)
        assert names == (
            f"DistBackendError: simccl's {('all_reduce', 'broadcast')[rank]} on rank {rank} of 2 failed: the ranks do"
            " not agree on call #1 of the default group: rank 0 called all_reduce of float32[3] by sum; rank 1 called"
            " broadcast of float32[3] from rank 0"
        )
        assert "#2 of the default group: rank 0 called all_reduce of float32[3] by sum; rank 1" in shapes
        assert "rank 1 called all_reduce of float32[4] by sum" in shapes
        assert "rank 1 called all_reduce of int32[3] by sum" in dtypes
        assert (
            "rank 0 called all_reduce of float32[3] by sum; rank 1 called all_reduce of float32[3] by max" in reductions
        )
        assert "broadcast of float32[3] from rank 0; rank 1 called broadcast of float32[3] from rank 1" in roots
        assert "rank 0 called all_to_all_single of float32 with 1, 2 elements to and 1, 2 from ranks 0 to 1" in parts
        assert "call #7 of the default group" in later


def test_one_of_four_ranks_that_differs_is_told_to_all(on_ranks: Callable[..., list[str]]) -> None:
    for said in on_ranks("one_of_four", 4, programs=PROGRAMS):
        (told,) = refused(said)
        assert (
            "call #2 of the default group: ranks 0, 1, 3 called all_reduce of float32[3] by sum; rank 2 called barrier"
        ) in told


def test_a_correct_program_is_not_held_up_by_the_check(on_ranks: Callable[..., list[str]]) -> None:
    on_ranks("correct", programs=PROGRAMS)
