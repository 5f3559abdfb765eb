"""Waits in the collectives of one group, which all its ranks must call in one order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from northbridge.flight_recorder.analysis.calls import Call, Group, RecordedRun, say_ranks
from northbridge.flight_recorder.analysis.findings import HangFinding, say_process, say_standing, say_wait
from northbridge.flight_recorder.analysis.first_difference import say_parting

_FREE_SIZES = frozenset({"all_gather", "all_gather_coalesced", "all_to_all", "all_to_all_single", "gather", "scatter"})
"""The collectives in which the sizes of the ranks' tensors may differ."""


def judge_collectives(run: RecordedRun, group: Group, now: float) -> list[HangFinding]:
    """Return the findings in the collectives of ``group``."""
    made = {rank: run.logs[rank].collectives(group) for rank in group.ranks if rank in run.logs}
    counted = {rank: run.logs[rank].count(group) if rank in run.logs else 0 for rank in group.ranks}
    everybody = min(counted.values())
    opened = {rank: calls for rank, made_by in made.items() if (calls := open_calls(made_by, everybody))}
    mismatch = _find_mismatch(group, made, opened)
    if mismatch is not None:
        return [mismatch]
    return [*_find_missing(run, group, made, counted, opened, now), *_find_lost(run, group, everybody, opened, now)]


def open_calls(calls: Sequence[Call], everybody: int) -> list[Call]:
    """Return a rank's unfinished ``calls``; every rank has made at least ``everybody`` calls.

    If a later call has finished, so have the earlier ones, even if the library does not say so. A call that is over
    with an unknown result cannot have succeeded before all ranks have made it.
    """
    found: list[Call] = []
    for call in reversed(calls):
        over = call.how == "over" and call.number <= everybody
        unknown = call.how == "unknown" and (call.number <= everybody or call is not calls[-1])
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
    everybody = min(counted.values())
    stuck = {rank: next((each for each in calls if each.number > everybody), None) for rank, calls in opened.items()}
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
        text += say_parting(made, blamed, waiting)
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
        text += say_parting(made, blamed, parties[-1])
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
