"""Findings and their wording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from northbridge.flight_recorder.analysis.calls import Call, Group, RankLog, RecordedRun, say_ranks

HangKind = Literal["not called", "mismatch", "not sent", "not received", "process", "nothing written"]


@dataclass(frozen=True)
class HangFinding:
    """One fault: the ranks to blame, and the ranks that wait for them."""

    kind: HangKind
    text: str
    blamed: tuple[int, ...]
    waiting: tuple[int, ...] = ()
    group: str = ""
    number: int | None = None
    operation: str = ""
    since: float | None = None

    @classmethod
    def in_calls(
        cls, kind: HangKind, text: str, blamed: Sequence[int], waiting: Sequence[int], calls: Sequence[Call]
    ) -> HangFinding:
        """Return the finding for ``calls``, which have one number in one group."""
        call, since = calls[0], min(each.at for each in calls)
        return cls(kind, text, tuple(blamed), tuple(waiting), str(call.group), call.number, call.operation, since)


def say_wait(ranks: Sequence[int], calls: Sequence[Call], now: float) -> str:
    """Return "ranks 0, 1 have waited for 35 s, at train.py:42 in fit", or the length of the wait until it failed."""
    began = min(call.at for call in calls)
    one = len(ranks) == 1
    failed = [call for call in calls if call.how == "failed" and call.ended is not None]
    where = calls[0].where
    if len(failed) == len(calls):
        lasted = _say_seconds(max(call.ended or call.at for call in failed) - began)
        why = f" ({failed[0].why})" if failed[0].why else ""
        return f"{say_ranks(ranks)} waited {lasted}{where}, until it failed{why}"
    return f"{say_ranks(ranks)} {'has' if one else 'have'} waited for {_say_seconds(now - began)}{where}"


def say_standing(run: RecordedRun, rank: int, group: Group) -> str:
    """Return the last call of a rank that others wait for, and the state of its process."""
    log = run.logs.get(rank)
    if log is None:
        return f"rank {rank} has written nothing: it never started, or made no call"
    last = log.calls[-1] if log.calls else None
    if last is None:
        did = f"rank {rank} has made no call yet"
    else:
        elsewhere = f" of {last.group}" if last.group != group else ""
        did = f"the last call of rank {rank} was {last}{elsewhere}{last.where}"
    seen = f", and it was later seen at {log.seen}" if log.seen else ""
    return f"{did}{seen}{say_process(log)}"


def say_process(log: RankLog) -> str:
    """Return "; its process 1234 is stopped", or nothing for a process that runs or is unknown."""
    if log.exited:
        return f"; its process {log.process} has ended by itself"
    if log.state == "stopped":
        return f"; its process {log.process} is stopped, by SIGSTOP or a debugger"
    if log.state == "gone":
        return f"; its process {log.process} is gone, and was probably killed"
    return ""


def _say_seconds(seconds: float) -> str:
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
