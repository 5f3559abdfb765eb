"""Records of ranks, written for a test of the judgement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
