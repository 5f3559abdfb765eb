"""Chains of waits: rank 1 waits for rank 2, which waits for rank 3 in another group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from northbridge.flight_recorder.analysis.findings import HangFinding


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
