"""Ranks that call different things: each is told what all of them called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.backends.cpu_sim.conftest import refused

Run = Callable[..., list[str]]


@pytest.fixture
def run(on_ranks: Callable[..., list[str]]) -> Run:
    """Run a function of disagreement_programs.py on so many ranks and return what each printed."""

    def on(function: str, size: int = 2) -> list[str]:
        return on_ranks(function, size, programs=Path(__file__).with_name("disagreement_programs.py"))

    return on


def test_every_difference_is_told_to_both_ranks(run: Run) -> None:
    for rank, said in enumerate(run("different")):
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


def test_one_of_four_ranks_that_differs_is_told_to_all(run: Run) -> None:
    for said in run("one_of_four", 4):
        (told,) = refused(said)
        assert (
            "call #2 of the default group: ranks 0, 1, 3 called all_reduce of float32[3] by sum; rank 2 called barrier"
        ) in told


def test_a_correct_program_is_not_held_up_by_the_check(run: Run) -> None:
    run("correct")
