"""The soak's own judgement: what it says of ranks that hang, crash, differ, or leave processes behind."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest
from tests.soak.__main__ import Ended, Round, complaints, run

PLANNED = "northbridge: planned fault: {}, at step 1, in aten::mm, rank 0 (…)\n"
GOOD = Ended(0, "weights abc\n", False, ())
ROUND = Round("cpu_sim", "ddp", 2, "kill rank=1")


def said(ended: Ended) -> list[str]:
    return complaints(ROUND, [GOOD, ended], "abc")


@pytest.mark.parametrize(
    "ended",
    [
        GOOD,
        replace(GOOD, code=-signal.SIGKILL, said=PLANNED.format("kill")),
        replace(GOOD, code=1, said=PLANNED.format("raise") + "RuntimeError: …"),
        replace(GOOD, code=-signal.SIGTERM, said=PLANNED.format("hang"), was_stuck=True),
        replace(GOOD, said=PLANNED.format("corrupt") + "weights abd\n"),
    ],
    ids=["undisturbed", "killed", "raised", "hung", "corrupted"],
)
def test_what_was_planned_is_right(ended: Ended) -> None:
    assert said(ended) == []


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (replace(GOOD, code=-signal.SIGTERM, was_stuck=True), "rank 1 hung"),
        (replace(GOOD, code=-signal.SIGSEGV, said=PLANNED.format("kill")), "rank 1 ended by -11"),
        (replace(GOOD, code=-signal.SIGKILL), "rank 1 ended by -9"),
        (replace(GOOD, code=1, said="RuntimeError: odd"), "no fault had happened: RuntimeError: odd"),
        (replace(GOOD, said="weights abd\n"), "rank 1 has other weights (abd, not abc), without an error"),
        (replace(GOOD, said=""), "rank 1 has other weights (None, not abc)"),
        (replace(GOOD, orphans=(77,)), "rank 1 left processes (77,) behind"),
    ],
    ids=["a hang", "a crash", "an unplanned kill", "an error", "a number", "nothing", "an orphan"],
)
def test_what_was_not_planned_is_told(ended: Ended, expected: str) -> None:
    (line,) = said(ended)

    assert expected in line


def test_a_round_is_the_same_for_the_same_seed() -> None:
    drawn = [Round.drawn(seed, "cpu_sim") for seed in range(200)]

    assert drawn == [Round.drawn(seed, "cpu_sim") for seed in range(200)]
    assert {word for each in drawn for word in each.plan.split()} >= {"kill", "hang", "lose", "step=3"}


def test_killed_rank_ends_the_other_and_leaves_nothing() -> None:
    given = Round("cpu_sim", "ddp", 2, "kill rank=1 step=2", deferred=True, checked=True)

    other, killed = run(given)

    assert (other.code, killed.code) == (1, -signal.SIGKILL)
    assert "rank 1 (process " in other.said
    assert complaints(given, [other, killed], "abc") == []
