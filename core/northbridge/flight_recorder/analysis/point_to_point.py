"""Waits in sends and receives: the n-th send to a rank belongs to its n-th receive from the sender."""

from __future__ import annotations

from collections.abc import Iterable

from northbridge.flight_recorder.analysis.calls import Call, Channel, Group, RecordedRun
from northbridge.flight_recorder.analysis.findings import HangFinding, HangKind, say_standing, say_wait


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
