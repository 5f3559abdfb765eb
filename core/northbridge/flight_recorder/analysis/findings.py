"""Findings: the waits in collectives, sends and receives, and how they are worded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from northbridge.flight_recorder.analysis.calls import Call, Channel, Group, RankLog, RecordedRun, say_ranks

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


# Collectives: all ranks of a group must call them in one order.

_FREE_SIZES = frozenset({"all_gather", "all_gather_coalesced", "all_to_all", "all_to_all_single", "gather", "scatter"})
"""The collectives in which the sizes of the ranks' tensors may differ."""


def judge_collectives(run: RecordedRun, group: Group, now: float) -> list[HangFinding]:
    """Return the findings in the collectives of ``group``."""
    made = {rank: run.logs[rank].collectives(group) for rank in group.ranks if rank in run.logs}
    counted = {rank: run.logs[rank].count(group) if rank in run.logs else 0 for rank in group.ranks}
    made_by_all = min(counted.values())
    opened = {rank: calls for rank, made_by in made.items() if (calls := open_calls(made_by, made_by_all))}
    mismatch = _find_mismatch(group, made, opened)
    if mismatch is not None:
        return [mismatch]
    return [*_find_missing(run, group, made, counted, opened, now), *_find_lost(run, group, made_by_all, opened, now)]


def open_calls(calls: Sequence[Call], made_by_all: int) -> list[Call]:
    """Return a rank's unfinished ``calls``; every rank has made at least ``made_by_all`` calls.

    If a later call has finished, so have the earlier ones, even if the library does not say so. A call that is over
    with an unknown result cannot have succeeded before all ranks have made it.
    """
    found: list[Call] = []
    for call in reversed(calls):
        over = call.how == "over" and call.number <= made_by_all
        unknown = call.how == "unknown" and (call.number <= made_by_all or call is not calls[-1])
        if call.how == "finished" or over or unknown:
            break
        found.insert(0, call)
    return found


def _find_missing(
    run: RecordedRun,
    group: Group,
    made: Mapping[int, Sequence[Call]],
    counted: Mapping[int, int],
    opened: Mapping[int, Sequence[Call]],
    now: float,
) -> Iterable[HangFinding]:
    """Yield the ranks that have not made a call that other ranks are in."""
    waits: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
    # Not a call that all ranks have made: libraries never report the end of some works.
    made_by_all = min(counted.values())
    stuck = {rank: next((each for each in calls if each.number > made_by_all), None) for rank, calls in opened.items()}
    waited_in = {rank: call for rank, call in stuck.items() if call is not None}
    for rank, call in waited_in.items():
        behind = tuple(other for other in group.ranks if counted[other] < call.number)
        if behind:
            waits[call.number, behind].append(rank)
    for (_, blamed), waiting in sorted(waits.items()):
        calls = [waited_in[rank] for rank in waiting]
        have = "has" if len(blamed) == 1 else "have"
        text = (
            f"{say_ranks(blamed)} of {group} {have} not called {calls[0]}, for which {say_wait(waiting, calls, now)};"
            f" {'; '.join(say_standing(run, rank, group) for rank in blamed)}"
        )
        text += describe_skipped_call(made, blamed, waiting)
        yield HangFinding.in_calls("not called", text, blamed, waiting, calls)


def _find_lost(
    run: RecordedRun, group: Group, number: int, opened: Mapping[int, Sequence[Call]], now: float
) -> Iterable[HangFinding]:
    """Yield the ranks that were stopped or killed in the last call that all ranks have made."""
    inside = {rank: each for rank, calls in opened.items() for each in calls if each.number == number}
    lost = [
        rank
        for rank in inside
        if run.logs[rank].state == "stopped" or (run.logs[rank].state == "gone" and not run.logs[rank].exited)
    ]
    waiting = [rank for rank in inside if rank not in lost]
    if not lost or not waiting:
        return
    calls = [inside[rank] for rank in waiting]
    states = "; ".join(f"rank {rank}{say_process(run.logs[rank]).replace(';', ':', 1)}" for rank in lost)
    text = f"all ranks of {group} have called {calls[0]}, in which {say_wait(waiting, calls, now)}; {states}"
    yield HangFinding.in_calls("process", text, lost, waiting, calls)


def _find_mismatch(
    group: Group, made: Mapping[int, Sequence[Call]], opened: Mapping[int, Sequence[Call]]
) -> HangFinding | None:
    """Return the first number at which the ranks' calls differ, if one of these calls is unfinished."""
    by_number: dict[int, dict[int, Call]] = defaultdict(dict)
    for rank, calls in made.items():
        for call in calls:
            by_number[call.number][rank] = call
    for number, here in sorted(by_number.items()):
        kinds: dict[object, list[int]] = defaultdict(list)
        for rank, call in here.items():
            kinds[_kind(call)].append(rank)
        different = len({call.operation for call in here.values()}) > 1
        open_here = any(calls[0].number <= number for calls in opened.values())
        if len(kinds) < 2 or not ((different and opened) or open_here):
            continue
        parties = sorted(kinds.values(), key=lambda ranks: (len(ranks), ranks))
        told = "; ".join(_say_party(ranks, here[ranks[0]]) for ranks in parties)
        blamed = parties[0] if len(parties[0]) < len(parties[-1]) else [rank for ranks in parties for rank in ranks]
        text = f"the ranks of {group} have made different calls as #{number}: {told}"
        text += describe_skipped_call(made, blamed, parties[-1])
        waiting = sorted(rank for rank in opened if rank not in blamed)
        return HangFinding.in_calls("mismatch", text, blamed, waiting, [here[blamed[0]], *here.values()])
    return None


def _kind(call: Call) -> object:
    """Return the facts that must be equal on every rank: the sizes, but not the shapes."""
    if call.operation in _FREE_SIZES or "barrier" in call.operation:
        return call.operation, call.root
    dtype = call.tensors.partition(" ")[0]
    return call.operation, call.root, dtype, call.elements


def _say_party(ranks: Sequence[int], call: Call) -> str:
    root = f" with root {call.root}" if call.root is not None else ""
    tensors = f" ({call.tensors})" if call.tensors else ""
    return f"{say_ranks(ranks)} {call.operation}{root}{tensors}{call.where}"


# The call from which on a rank is out of step, because it skipped or added a call.

_COMPARED = 50


def describe_skipped_call(made: Mapping[int, Sequence[Call]], blamed: Sequence[int], waiting: Sequence[int]) -> str:
    """Return the call that a blamed rank left out or a waiting rank added; empty if neither is found."""
    if not waiting:
        return ""
    other = waiting[0]
    for rank in blamed:
        if call := _find_left_out(made.get(rank, ()), made.get(other, ())):
            few, many = rank, other
        elif call := _find_left_out(made.get(other, ()), made.get(rank, ())):
            few, many = other, rank
        else:
            continue
        # One rank out of step is likelier than all the others.
        odd = few if (few == rank) == (len(blamed) <= len(waiting)) else many
        what = f"#{call.number} {call.operation}{call.where}"
        if odd == few:
            return f"; rank {odd} has left out {what}: what it calls #{call.number} is #{call.number + 1} elsewhere"
        return f"; rank {odd} alone has made {what}: what others call #{call.number} is its #{call.number + 1}"
    return ""


def _find_left_out(fewer: Sequence[Call], more: Sequence[Call]) -> Call | None:
    """Return the call of ``more`` from which on ``fewer`` has the same calls, one number earlier."""
    own, theirs = ({call.number: call for call in calls} for calls in (fewer, more))
    number = next((each for each in sorted(own.keys() & theirs.keys()) if _what(own[each]) != _what(theirs[each])), 0)
    later = [each for each in own if number <= each < number + _COMPARED and each + 1 in theirs]
    if not number or not later or any(_what(own[each]) != _what(theirs[each + 1]) for each in later):
        return None
    return theirs[number]


def _what(call: Call) -> object:
    return call.operation, call.place, call.elements


# Sends and receives: the n-th send to a rank belongs to its n-th receive from the sender.


def judge_point_to_point(run: RecordedRun, group: Group, now: float) -> Iterable[HangFinding]:
    """Yield the findings in the sends and receives of ``group``."""
    for rank in group.ranks:
        if rank not in run.logs:
            continue
        channels = {call.channel for call in run.logs[rank].calls if call.group == group and call.channel.direction}
        for channel in sorted(channels, key=str):
            calls = [call for call in run.logs[rank].calls if call.group == group and call.channel == channel]
            found = _judge(run, group, rank, calls, now)
            if found is not None:
                yield found


def _judge(run: RecordedRun, group: Group, rank: int, calls: list[Call], now: float) -> HangFinding | None:
    channel, answered = calls[0].channel, _answers(run, group, rank, calls[0].channel)
    sends = channel.direction == "send"
    # A library may finish a send that has not been received yet, but not a receive that has not been sent.
    done = ("finished", "over", "unknown") if sends else ("finished",)
    call = next((each for each in calls if each.number > answered and each.how not in done), None)
    if call is None or any(later.number > call.number and later.how == "finished" for later in calls):
        return None
    waits = say_wait([rank], [call], now)
    tag = f", tag {channel.tag}" if channel.tag else ""
    tensors = f" ({call.tensors}{tag})" if call.tensors else ""
    if channel.peer is None:
        text = f"no rank has sent what rank {rank} of {group} receives from any rank{tensors}: {waits}"
        return HangFinding.in_calls("not sent", text, (), (rank,), [call])
    peer = channel.peer
    standing = say_standing(run, peer, group)
    if sends:
        text = f"rank {peer} of {group} does not receive what rank {rank} sends, #{call.number} between them{tensors}"
    else:
        text = f"rank {peer} of {group} has not sent what rank {rank} receives, #{call.number} between them{tensors}"
    kind: HangKind = "not received" if sends else "not sent"
    return HangFinding.in_calls(kind, f"{text}: {waits}; {standing}", (peer,), (rank,), [call])


def _answers(run: RecordedRun, group: Group, rank: int, channel: Channel) -> int:
    """Count the calls of other ranks that answer those of ``rank`` in ``channel``."""
    if channel.direction == "send":
        log = run.logs.get(channel.peer) if channel.peer is not None else None
        if log is None:
            return 0
        named = log.count(group, Channel("receive", rank, channel.tag))
        return named + log.count(group, Channel("receive", None, channel.tag))
    senders = group.ranks if channel.peer is None else (channel.peer,)
    sent = Channel("send", rank, channel.tag)
    return sum(run.logs[each].count(group, sent) for each in senders if each in run.logs)
