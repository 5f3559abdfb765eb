"""The device's events of traces, by name: how often, how long in all, on average, and which share of the whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from northbridge.lightning.profilers.trace import Trace
from northbridge.untrusted.text import shorten

_LONGEST_NAME = 55
_COLUMNS = ("name", "count", "total", "mean", "share")


@dataclass(frozen=True)
class Row:
    """All events of one name. Times are in microseconds, and the share is of the time of all events, from 0 to 1."""

    name: str
    count: int
    total: float
    mean: float
    share: float


def summarize(traces: Sequence[Trace]) -> list[Row]:
    """Return a row for each name of a device's event in ``traces``, the longest total first."""
    spans: defaultdict[str, list[float]] = defaultdict(list)
    for trace in traces:
        for event in trace.events:
            spans[event.name].append(event.microseconds)
    whole = sum(map(sum, spans.values())) or 1.0
    rows = [Row(name, len(each), sum(each), sum(each) / len(each), sum(each) / whole) for name, each in spans.items()]
    return sorted(rows, key=lambda row: (-row.total, row.name))


def show(traces: Sequence[Trace], row_limit: int = -1) -> str:
    """Return the table of ``traces``; -1 is all rows. Without a device's event, a sentence says what there is."""
    rows = summarize(traces)
    if not rows:
        return _say_nothing(traces)
    shown = rows if row_limit < 0 else rows[:row_limit]
    rest = rows[len(shown) :]
    cells = [_COLUMNS, *(_cells(row.name, row.count, row.total, row.mean, row.share) for row in shown)]
    if rest:
        count, total = sum(row.count for row in rest), sum(row.total for row in rest)
        name = f"{len(rest)} other names" if len(rest) > 1 else "1 other name"
        cells.append(_cells(name, count, total, total / count, sum(row.share for row in rest)))
    count, total = sum(row.count for row in rows), sum(row.total for row in rows)
    cells.append(_cells("all", count, total, total / count, 1.0))
    return _lay_out(cells)


def _say_nothing(traces: Sequence[Trace]) -> str:
    host: defaultdict[str, int] = defaultdict(int)
    for trace in traces:
        for category, count in trace.host.items():
            host[category] += count
    of_the_host = ", ".join(f"{count} {shorten(category)}" for category, count in list(host.items())[:6]) or "none"
    return (
        f"none: the trace has no device's row. Events of the host: {of_the_host}. Fix: check that the vendor's software"
        " traces its device with torch.profiler"
    )


def _cells(name: str, count: int, total: float, mean: float, share: float) -> tuple[str, ...]:
    line = shorten(name)
    short = line if len(line) <= _LONGEST_NAME else f"{line[: _LONGEST_NAME - 1]}…"
    return short, str(count), _with_unit(total), _with_unit(mean), f"{share:.1%}"


def _with_unit(microseconds: float) -> str:
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= size:
            return f"{microseconds / size:.3f} {unit}"
    return f"{microseconds:.3f} us"


def _lay_out(cells: Sequence[tuple[str, ...]]) -> str:
    first, *others = (max(map(len, column)) for column in zip(*cells, strict=True))
    lines = [
        "  ".join([name.ljust(first), *(number.rjust(width) for number, width in zip(numbers, others, strict=True))])
        for name, *numbers in cells
    ]
    rule = "-" * len(lines[0])
    return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1]])
