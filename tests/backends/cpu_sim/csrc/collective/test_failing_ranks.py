"""One of several ranks is lost, or calls something else: the others are told which, and how, within the timeout."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.backends.cpu_sim.conftest import Ranks, refused

from northbridge.flight_recorder.analysis.judgement import judge
from northbridge.flight_recorder.analysis.record_files import read_folder

PROGRAMS = Path(__file__).with_name("failing_programs.py")
BUSY_S = 15.0
"""The extra time beyond the timeout, for a busy machine."""

ENDED = r"failed: rank {lost} \(process \d+\) has ended"
SECOND = r"this was call #2 of the default group, all_reduce of float32\[3\] by sum"
FIRST = r"its last call in this group is #1 all_reduce of float32\[3\] by sum \(done\)"
LOST: dict[str, tuple[int, tuple[str, ...]]] = {
    "stopped": (
        3,
        (r"simccl's all_reduce on rank \d of 4 failed: rank {lost} \(process \d+\) is stopped", FIRST, SECOND),
    ),
    "killed": (3, (rf"simccl's all_reduce on rank \d of 4 {ENDED}", SECOND)),
    "killed_in_a_subgroup": (
        1,
        (rf"simccl's all_reduce on rank 1 {ENDED}", r"\(ranks 1, 3\), all_reduce of float32\[3\] by sum"),
    ),
    "killed_in_the_call": (3, (ENDED,)),
    "skips": (3, (r"failed: rank 2 \(process \d+\) is alive and has not called it; its last call", FIRST)),
    "receives_in_vain": (
        1,
        (
            r"simccl's recv on rank 0 of 4 failed: rank 2 \(process \d+\) is stopped",
            r"this was send or receive #1 of the default group, recv of float32\[3\] from rank 2",
        ),
    ),
    "pipeline": (
        2,
        (
            rf"simccl's recv on rank [01] of 4 {ENDED}",
            r"its last call in this group is send or receive #1 recv of float32\[2\] from rank 3 \(done\)",
        ),
    ),
}
"""For each program: the number of ranks that are told, and what."""


@pytest.mark.parametrize("checked", ["1", "0"], ids=["checked", "unchecked"])
@pytest.mark.parametrize(
    ("program", "lost"),
    [
        *(("stopped", rank) for rank in (2, 0)),
        *(("killed", rank) for rank in (2, 0)),
        ("killed_in_a_subgroup", 3),
        *((program, 2) for program in ("killed_in_the_call", "skips", "receives_in_vain", "pipeline")),
    ],
)
def test_a_lost_rank_is_named(start_ranks: Callable[..., Ranks], program: str, lost: int, checked: str) -> None:
    """At once if its process has ended, else within the timeout; one that was stopped ends once it goes on."""
    number, words = LOST[program]
    timeout_s = 100.0 if ENDED in "".join(words) else 5.0
    environ = {"LOST": str(lost), "TIMEOUT_S": str(timeout_s), "NORTHBRIDGE_CPU_SIM_CHECK_COLLECTIVES": checked}
    ranks = start_ranks(program, 4, environ, PROGRAMS)
    said = [ranks.said(rank) for rank in range(4) if rank != lost]
    with contextlib.suppress(ProcessLookupError):
        os.kill(ranks.processes[lost].pid, signal.SIGCONT)
    last = ranks.said(lost)  # which ends

    assert ranks.status(lost) in (0, 1, -signal.SIGKILL), last
    within_s = BUSY_S if timeout_s == 100.0 else timeout_s + BUSY_S
    for seconds in (float(found) for each in said for found in re.findall(r"^after ([\d.]+) s$", each, re.M)):
        assert seconds < within_s, said
    told = [line for each in said for line in refused(each)]
    assert len(told) == number
    for each in told:
        assert all(re.search(pattern.format(lost=lost), each) for pattern in words), each
        assert each.count("(process ") == 1, each


def test_a_rank_that_never_started_is_named(start_ranks: Callable[..., Ranks]) -> None:
    ranks = start_ranks("never_started", 4, programs=PROGRAMS, only=[0, 1, 3])

    for rank, said in zip((0, 1, 3), (ranks.said(rank) for rank in range(3)), strict=True):
        (each,) = refused(said)
        assert f"simccl's making of the default group on rank {rank} of 4 failed: " in each
        assert " for rank 2, which did not join: it never started, " in each


def test_every_difference_is_told_to_both_ranks(on_ranks: Callable[..., list[str]]) -> None:
    same = "all_reduce of float32[3] by sum"
    for rank, said in enumerate(on_ranks("different", programs=PROGRAMS)):
        names, shapes, dtypes, reductions, roots, parts, later = refused(said)
        assert names == (
            f"DistBackendError: simccl's {('all_reduce', 'broadcast')[rank]} on rank {rank} of 2 failed: the ranks do"
            f" not agree on call #1 of the default group: rank 0 called {same}; rank 1 called broadcast of float32[3]"
            " from rank 0"
        )
        assert f"#2 of the default group: rank 0 called {same}; rank 1 called all_reduce of float32[4] by sum" in shapes
        assert "rank 1 called all_reduce of int32[3] by sum" in dtypes
        assert f"rank 0 called {same}; rank 1 called all_reduce of float32[3] by max" in reductions
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


@pytest.mark.parametrize("threads", ["0", "1"], ids=["backward in the caller's thread", "backward in a thread of C++"])
def test_the_flight_recorder_names_a_backward_left_out(
    on_ranks: Callable[..., list[str]], tmp_path: Path, threads: str
) -> None:
    folder = tmp_path / "flight"
    environ = {"NORTHBRIDGE_FLIGHT_RECORDER": str(folder), "NORTHBRIDGE_CPU_SIM_AUTOGRAD_THREADS": threads}
    on_ranks("one_leaves_out_a_backward", size=3, programs=PROGRAMS, environ=environ)

    (finding,) = judge(read_folder(folder), time.time()).findings

    assert (finding.kind, finding.operation) == ("not called", "all_reduce")
    assert (finding.blamed, finding.waiting) == ((2,), (0, 1))
    assert "all_reduce (float32 [4]), for which ranks 0, 1 waited" in finding.text
    line = 1 + PROGRAMS.read_text().splitlines().index("            loss.backward()")
    in_thread = " (from autograd's thread; the main thread was there)" if threads == "1" else ""
    assert f"failing_programs.py:{line} in one_leaves_out_a_backward{in_thread}, until it failed" in finding.text
