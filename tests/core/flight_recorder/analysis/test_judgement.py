"""The judgement of waits in collectives, sends and receives, from records that are written here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from northbridge.flight_recorder.analysis.calls import Call, Channel, Group, RankLog, RecordedRun
from northbridge.flight_recorder.analysis.judgement import Judgement, judge

WORLD = Group("0", (0, 1, 2, 3), description="default_pg")
NOW = 1000.0


def all_reduce(number: int, how: Any = "finished", **more: Any) -> Call:
    """The all-reduce that every rank makes at train.py:42."""
    facts = {"group": WORLD, "operation": "all_reduce", "tensors": "float32 [1024]", "elements": 1024}
    facts |= {"place": "train.py:42 in training_step", "at": 900.0 + number, "how": how}
    return Call(number=number, **{**facts, **more})


def sent(peer: int, number: int = 1, how: Any = "waiting", **more: Any) -> Call:
    """The ``number``-th send to ``peer``, at pipe.py:7."""
    return all_reduce(
        number, how, **{"operation": "send", "channel": Channel("send", peer, 0), "place": "pipe.py:7 in send", **more}
    )


def received(peer: int | None, number: int = 1, how: Any = "waiting", **more: Any) -> Call:
    """The ``number``-th receive from ``peer``, at pipe.py:9."""
    channel = Channel("receive", peer, 0)
    return all_reduce(number, how, **{"operation": "recv", "channel": channel, "place": "pipe.py:9 in recv", **more})


def log(rank: int, calls: Sequence[Call], **more: Any) -> RankLog:
    """Return the complete record of ``rank``, if nothing was overwritten."""
    counts: dict[tuple[Group, str], int] = {}
    for call in calls:
        counts[call.group, str(call.channel)] = call.number
    return RankLog(rank, calls, counts, process=4000 + rank, **more)


def judged(*logs: RankLog, world_size: int = 4) -> Judgement:
    """The judgement of a run of which these logs are there, at second 1000."""
    return judge(RecordedRun(world_size, {each.rank: each for each in logs}), NOW)


def told(*logs: RankLog, world_size: int = 4) -> list[str]:
    """The findings as text."""
    return [each.text for each in judged(*logs, world_size=world_size).findings]


def until(last: int, how: str = "finished") -> list[Call]:
    """A rank's calls up to number ``last``, of which the last ended so."""
    return [*(all_reduce(number) for number in range(1, last)), all_reduce(last, how)]


def test_where_everything_has_finished_nobody_waits() -> None:
    """Nor is a rank a finding that is behind while nobody waits."""
    judgement = judged(*(log(rank, until(5)) for rank in range(4)))
    root = all_reduce(6, operation="broadcast", root=0)

    assert (judgement.findings, judgement.chains, judgement.notes) == ((), (), ())
    assert told(log(0, [*until(5), root]), *(log(rank, until(5)) for rank in (1, 2, 3))) == []


def test_missing_rank_is_named_with_those_that_wait() -> None:
    last = all_reduce(16, operation="all_gather", place="train.py:40 in training_step")
    others = [*until(15), last, all_reduce(17, "waiting", at=965.0)]

    judgement = judged(*(log(rank, others) for rank in (0, 1, 3)), log(2, [*until(15), last]))

    (finding,) = judgement.findings
    assert finding.text == (
        "rank 2 of group 0 (default_pg, ranks 0-3) has not called #17 all_reduce (float32 [1024]), for which ranks"
        " 0, 1, 3 have waited for 35 s, at train.py:42 in training_step; the last call of rank 2 was #16 all_gather"
        " (float32 [1024]), at train.py:40 in training_step"
    )
    assert (finding.kind, finding.blamed, finding.waiting, finding.number) == ("not called", (2,), (0, 1, 3), 17)


def test_failed_ranks_waited_for_the_missing_one() -> None:
    failed = all_reduce(3, "failed", at=900.0, ended=930.0, why="RuntimeError: Timed out waiting 30000ms")

    (text,) = told(*(log(rank, [*until(2), failed]) for rank in (0, 1, 3)), log(2, until(2)))

    assert "for which ranks 0, 1, 3 waited 30 s" in text
    assert "until it failed (RuntimeError: Timed out waiting 30000ms); the last call of rank 2 was #2" in text


@pytest.mark.parametrize(
    "calls",
    [
        until(3, "over"),  # a library that does not say how a call ended: it has failed
        [all_reduce(1), all_reduce(2, "waiting"), all_reduce(3, "waiting")],  # an unfinished one hides no later one
        [all_reduce(number, "unknown") for number in (1, 2, 3)],  # without ends, the last alone is waited in
    ],
    ids=["over", "unfinished", "unknown"],
)
def test_the_last_call_is_the_one_that_waits(calls: list[Call]) -> None:
    (finding,) = judged(*(log(rank, calls) for rank in (0, 1, 3)), log(2, calls[:2])).findings

    assert (finding.number, finding.blamed, finding.waiting) == (3, (2,), (0, 1, 3))
    assert "rank 2 of group 0 (default_pg, ranks 0-3) has not called #3" in finding.text


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"state": "stopped"}, "; its process 4002 is stopped, by SIGSTOP or a debugger"),
        ({"state": "gone"}, "; its process 4002 is gone, and was probably killed"),
        ({"state": "gone", "exited": True}, "; its process 4002 has ended by itself"),
        ({"seen": "data.py:9 in read"}, "train.py:42 in training_step, and it was later seen at data.py:9 in read"),
    ],
)
def test_what_became_of_the_rank_is_told(facts: dict[str, object], said: str) -> None:
    (text,) = told(*(log(rank, until(5, "waiting")) for rank in (0, 1, 3)), log(2, until(4), **facts))

    assert text.endswith(said)


def test_rank_stopped_in_a_common_call_is_found() -> None:
    inside = until(5, "waiting")

    (finding,) = judged(*(log(rank, inside) for rank in (0, 1, 3)), log(2, inside, state="stopped")).findings

    assert (finding.kind, finding.blamed, finding.waiting) == ("process", (2,), (0, 1, 3))
    assert finding.text.startswith("all ranks of group 0 (default_pg, ranks 0-3) have called #5 all_reduce")
    assert finding.text.endswith("rank 2: its process 4002 is stopped, by SIGSTOP or a debugger")


UNDER_WAY = (
    "all ranks of group 0 (default_pg, ranks 0-3) have called #1 all_reduce (float32 [1024]), and ranks 0-3 are still"
    " in it: it is under way, or the library is slow or hangs"
)
FAILED = (
    "#1 all_reduce (float32 [1024]) of group 0 (default_pg, ranks 0-3) has failed on ranks 0-3, at train.py:42 in"
    " training_step: RuntimeError: no"
)


def test_call_of_all_ranks_is_a_note() -> None:
    for last, said in (
        (all_reduce(1, "waiting"), UNDER_WAY),
        (all_reduce(1, "failed", why="RuntimeError: no"), FAILED),
    ):
        judgement = judged(*(log(rank, [last]) for rank in range(4)))
        assert (judgement.findings, judgement.notes) == ((), (said,))


def test_a_rank_that_has_written_nothing_is_named() -> None:
    (text,) = told(*(RankLog(rank) for rank in (0, 1, 2)))
    (waited,) = told(*(log(rank, until(1, "waiting")) for rank in (0, 1, 2)))

    assert text == (
        "rank 3 of 4 has written nothing: never started, or NORTHBRIDGE_FLIGHT_RECORDER differs there; ranks 0-2 made"
        " no call yet, and may wait in init_process_group"
    )
    assert waited.endswith("rank 3 has written nothing: it never started, or made no call")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"operation": "broadcast", "root": 0}, "rank 1 broadcast with root 0 (float32 [1024]), at train.py:42"),
        ({"tensors": "float32 [7]", "elements": 7}, "rank 1 all_reduce (float32 [7]), at train.py:42"),
        ({"tensors": "float16 [1024]"}, "rank 1 all_reduce (float16 [1024]), at train.py:42"),
    ],
    ids=["operation", "size", "dtype"],
)
def test_different_calls_are_named_with_their_ranks(wrong: dict[str, object], said: str) -> None:
    odd = [*until(2), all_reduce(3, "waiting", **wrong)]

    (finding,) = judged(log(1, odd), *(log(rank, until(3, "waiting")) for rank in (0, 2, 3))).findings

    assert (finding.kind, finding.blamed, finding.number) == ("mismatch", (1,), 3)
    assert f"have made different calls as #3: {said}" in finding.text
    assert "ranks 0, 2, 3 all_reduce (float32 [1024]), at train.py:42 in training_step" in finding.text


def test_uneven_sizes_are_right_where_the_operation_allows_them() -> None:
    """And a mismatch that finished is not the cause."""
    gathered = [[all_reduce(1, "waiting", operation="all_gather", elements=rank)] for rank in range(4)]
    first = [all_reduce(1, elements=rank, operation="library_s_own") for rank in range(4)]
    logs = [log(rank, [first[rank], all_reduce(2, "waiting")]) for rank in range(3)]

    (finding,) = judged(*logs, log(3, [first[3]])).findings

    assert told(*(log(rank, calls) for rank, calls in enumerate(gathered))) == []
    assert finding.kind == "not called"


def steps(*, without: int = 0, twice: int = 0) -> list[Call]:
    """Three steps of two calls from two lines; the call that is numbered so, in the others' count, is left out."""
    lines = [10, 20, 10, 20, 10, 20]
    if without:
        del lines[without - 1]
    if twice:
        lines.insert(twice, lines[twice - 1])
    last = len(lines)
    return [
        all_reduce(number, "waiting" if number == last else "finished", place=f"train.py:{line} in step")
        for number, line in enumerate(lines, start=1)
    ]


@pytest.mark.parametrize(
    ("odd", "missing", "fault"),
    [
        (
            steps(without=3),
            "rank 2 of group 0 (default_pg, ranks 0-3) has not called #6",
            "; rank 2 has left out #3 all_reduce, at train.py:10 in step: what it calls #3 is #4 elsewhere",
        ),
        (
            steps(twice=3),
            "ranks 0, 1, 3 of group 0 (default_pg, ranks 0-3) have not called #7",
            "; rank 2 alone has made #4 all_reduce, at train.py:10 in step: what others call #4 is its #5",
        ),
    ],
    ids=["a call too few", "a call too many"],
)
def test_the_rank_that_is_out_of_step_is_named(odd: list[Call], missing: str, fault: str) -> None:
    (text,) = told(*(log(rank, steps()) for rank in (0, 1, 3)), log(2, odd))

    assert missing in text
    assert text.endswith(fault)


def test_a_group_destroyed_and_made_again_is_another_group() -> None:
    again = Group("0", (0, 1, 2, 3), life=2, description="default_pg")
    first = [all_reduce(number) for number in (1, 2, 3)]
    second = [all_reduce(1, "waiting", group=again)]

    (finding,) = judged(*(log(rank, [*first, *second]) for rank in (0, 1, 2)), log(3, first)).findings

    assert (finding.number, finding.blamed) == (1, (3,))
    assert "the last call of rank 3 was #3 all_reduce (float32 [1024]) of group 0" in finding.text


def test_waits_over_two_groups_are_a_chain_or_a_circle() -> None:
    def waiting(group: Group) -> list[Call]:
        return [all_reduce(1, "waiting", group=group)]

    left, right, same = Group("1", (0, 1)), Group("2", (1, 2)), Group("2", (0, 1))
    row = judged(log(0, waiting(left)), log(1, waiting(right)), RankLog(2), world_size=3)
    circle = judged(log(0, waiting(left)), log(1, waiting(same)), world_size=2)

    (chain,) = row.chains
    assert chain == (
        "rank 0 waits for rank 1 (all_reduce #1 of group 1 (ranks 0, 1)), which waits for rank 2 (all_reduce #1 of"
        " group 2 (ranks 1, 2)): look at rank 2 first"
    )
    assert len(circle.findings) == 2
    assert [chain.rpartition(": ")[2] for chain in circle.chains] == ["a cycle"]


def test_overwritten_rank_is_known_by_its_count() -> None:
    late = RankLog(2, [], {(WORLD, ""): 9})

    (text,) = told(*(log(rank, [all_reduce(10, "waiting")]) for rank in (0, 1, 3)), late)

    assert "has not called #10" in text


def test_receive_without_a_send_names_the_sender() -> None:
    busy = all_reduce(1)

    (text,) = told(log(0, [received(1)]), log(1, [busy]), log(2, []), log(3, []))

    assert text == (
        "rank 1 of group 0 (default_pg, ranks 0-3) has not sent what rank 0 receives, #1 between them (float32 [1024]):"
        " rank 0 has waited for 99 s, at pipe.py:9 in recv; the last call of rank 1 was #1 all_reduce (float32 [1024]),"
        " at train.py:42 in training_step"
    )


def test_the_second_receive_waits_where_one_was_sent() -> None:
    """A send that nobody receives names the receiver."""
    calls = [received(1, 1, "finished"), received(1, 2)]

    (second,) = judged(log(0, calls), log(1, [sent(0, 1, "finished")]), world_size=2).findings
    (lost,) = judged(log(0, [sent(1)]), log(1, [all_reduce(1)]), world_size=2).findings

    assert (second.kind, second.number, second.blamed) == ("not sent", 2, (1,))
    assert (lost.kind, lost.blamed, lost.waiting) == ("not received", (1,), (0,))
    assert "rank 1 of group 0 (default_pg, ranks 0-3) does not receive what rank 0 sends, #1" in lost.text


@pytest.mark.parametrize(
    ("zero", "one", "findings"),
    [
        (sent(1, how="over"), all_reduce(1), 0),  # the library has taken it
        (received(1, how="over"), all_reduce(1), 1),  # without a send it has failed
        (sent(1), received(0), 0),
        (sent(1), received(None), 0),  # from any rank
    ],
)
def test_a_send_and_a_receive_are_matched(zero: Call, one: Call, findings: int) -> None:
    assert len(told(log(0, [zero]), log(1, [one]), world_size=2)) == findings


def test_a_receive_from_any_rank_waits_for_no_certain_one() -> None:
    (text,) = told(log(0, [all_reduce(1)]), log(1, [received(None)]), world_size=2)
    (chain,) = judged(log(0, [received(1)]), log(1, [received(2)]), log(2, [all_reduce(1)]), world_size=3).chains

    assert text.startswith("no rank has sent what rank 1 of group 0 (default_pg, ranks 0-3) receives from any rank")
    assert chain.startswith("rank 0 waits for rank 1 (recv #1 of group 0")  # one behind the other
    assert chain.endswith(": look at rank 2 first")
