"""Waits between ranks and chains of them, computed only from the records of all ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from northbridge.flight_recorder.analysis.calls import Call, Group, RecordedRun, say_ranks
from northbridge.flight_recorder.analysis.findings import (
    HangFinding,
    judge_collectives,
    judge_point_to_point,
    open_calls,
)


@dataclass(frozen=True)
class Judgement:
    """Findings with the most telling first, chains of waits, and notes."""

    findings: tuple[HangFinding, ...]
    chains: tuple[str, ...]
    notes: tuple[str, ...]


def judge(run: RecordedRun, now: float) -> Judgement:
    """Judge which rank waits for which in ``run``, at the time ``now`` in seconds since 1970."""
    groups = sorted({group for log in run.logs.values() for group, _ in log.counts}, key=str)
    findings = [each for group in groups for each in judge_collectives(run, group, now)]
    findings += [each for group in groups for each in judge_point_to_point(run, group, now)]
    absent = [rank for rank in range(run.world_size) if rank not in run.logs]
    blamed = {rank for each in findings for rank in each.blamed}
    if set(absent) - blamed:
        findings.insert(0, _absence(run, absent))
    notes = [] if findings else [each for group in groups for each in _under_way(run, group)]
    if run.left_out:
        notes.append(f"left out: {run.left_out} files of earlier runs, or of processes that were started again")
    return Judgement(tuple(findings), tuple(find_chains(findings)), tuple(notes))


def _absence(run: RecordedRun, absent: list[int]) -> HangFinding:
    have = "has" if len(absent) == 1 else "have"
    why = "never started, or NORTHBRIDGE_FLIGHT_RECORDER differs there"
    text = f"{say_ranks(absent)} of {run.world_size} {have} written nothing: {why}"
    silent = [rank for rank, log in run.logs.items() if not log.counts]
    if silent:
        text += f"; {say_ranks(silent)} made no call yet, and may wait in init_process_group"
    return HangFinding("nothing written", text, tuple(absent), tuple(silent))


def _under_way(run: RecordedRun, group: Group) -> list[str]:
    ranks = [rank for rank in group.ranks if rank in run.logs]
    everybody = min((run.logs[rank].count(group) for rank in ranks), default=0)
    inside: dict[int, Call] = {}
    for rank in ranks:
        opened = open_calls(run.logs[rank].collectives(group), everybody)
        if opened and (opened[-1].how == "failed" or not run.logs[rank].exited):
            inside[rank] = opened[-1]
    if not inside:
        return []
    call = next(iter(inside.values()))
    if all(each.how == "failed" for each in inside.values()):
        return [f"{call} of {group} has failed on {say_ranks(list(inside))}{call.where}: {call.why}"]
    text = (
        f"all ranks of {group} have called {call}, and {say_ranks(list(inside))} are still in it: it is under way, or"
        " the library is slow or hangs"
    )
    return [text]


def find_chains(findings: Sequence[HangFinding]) -> list[str]:
    """Return each chain of two or more waits that is not part of a longer one, and each circle."""
    waits: dict[int, dict[int, HangFinding]] = {}
    for finding in findings:
        for waiting in finding.waiting:
            for blamed in finding.blamed:
                waits.setdefault(waiting, {}).setdefault(blamed, finding)
    ends = {blamed for each in waits.values() for blamed in each}
    begins = [rank for rank in sorted(waits) if rank not in ends] or sorted(waits)[:1]
    told: dict[str, None] = {}
    for begin in begins:
        for path in _paths(waits, [begin]):
            if len(path) > 2:
                told[_say(waits, path)] = None
    return list(told)


def _paths(waits: dict[int, dict[int, HangFinding]], path: list[int]) -> Iterable[list[int]]:
    onward = waits.get(path[-1], {})
    if not onward:
        yield path
    for blamed in onward:
        if blamed in path:
            yield [*path[path.index(blamed) :], blamed]
        else:
            yield from _paths(waits, [*path, blamed])


def _say(waits: dict[int, dict[int, HangFinding]], path: list[int]) -> str:
    steps = [
        f"rank {blamed} ({finding.operation} #{finding.number} of {finding.group})"
        for waiting, blamed in pairwise(path)
        for finding in [waits[waiting][blamed]]
    ]
    chain = f"rank {path[0]} waits for {', which waits for '.join(steps)}"
    return f"{chain}: a cycle" if path[0] == path[-1] else f"{chain}: look at rank {path[-1]} first"
