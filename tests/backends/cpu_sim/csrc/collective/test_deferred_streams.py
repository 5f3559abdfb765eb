"""A collective takes effect when its work is waited for; a wait that was forgotten shows as NaN."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).with_name("stream_rank_programs.py")


@pytest.mark.parametrize(
    "program",
    [
        "each_collective",
        "reduce_to_one_rank",
        "received_message",
        "waited_for_by_another_stream",
        "input_overwritten",
        "gathered_in_place",
        "asked_until_done",
        "future",
        "results_read_in_callbacks",
        "receives_out_of_turn",
        "used_again_before_waited_for",
        "refused_calls_change_nothing",
        "blocking_calls",
        "training",
    ],
)
def test_ranks_that_wait_too_little_see_it(on_ranks: Callable[..., list[str]], program: str) -> None:
    on_ranks(program, programs=PROGRAMS)
