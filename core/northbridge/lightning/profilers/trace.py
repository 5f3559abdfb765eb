"""The device's events in a trace of ``torch.profiler``, in Chrome's trace event format, and their table.

Some vendors' events pass through Kineto, others are added to the exported file. Only the file has the events of all.
"""

from __future__ import annotations

import gzip
import io
import json
import reprlib
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from northbridge.untrusted.files import read_file, too_large
from northbridge.untrusted.text import shorten

_MOST_BYTES = 1 << 28
"""Limit for a trace, and for what is compressed in it. As Python's objects it may be twenty times as large."""

_LONGEST = 1e15
"""Limit for a duration in microseconds, 31 years: a sum of durations stays a number."""

KERNELS = frozenset({"kernel", "concurrent_kernel", "gpu_memcpy", "gpu_memset"})
"""Categories of Kineto that only a device's row has."""

DEVICE_ROWS = ("GPU ", "/device:")
"""How the label of a device's row begins, in Kineto's traces and in TensorFlow's profiler format."""

NOT_WORK = frozenset({"user_annotation", "gpu_user_annotation", "overhead", "trace", "cuda_sync"})
"""Categories of spans that stand in a device's row and are not its work."""


class TraceError(Exception):
    """The file is not a readable trace. The message says which file, and why."""


@dataclass(frozen=True)
class Event:
    """One piece of work on a device."""

    name: str
    microseconds: float


@dataclass(frozen=True)
class Trace:
    """The device's events in one trace, and how many events of each category the host has."""

    events: tuple[Event, ...]
    host: Mapping[str, int]


def read_trace(path: Path) -> Trace:
    """Read the file ``path``, which may be compressed with gzip.

    A device's row is one whose label says so, or which has a kernel. Raises :class:`TraceError` if the file is missing,
    damaged or not a trace.
    """
    found = list(_timed(path, _parse(path)))
    rows = {row for row, category, _ in found if category in KERNELS}
    rows |= {row for row, category, event in found if category is None and event.name.startswith(DEVICE_ROWS)}
    timed = [(row, category, event) for row, category, event in found if category is not None]
    work = (event for row, category, event in timed if row in rows and category not in NOT_WORK)
    host = Counter(category or "none" for row, category, _ in timed if row not in rows)
    return Trace(tuple(work), dict(host.most_common()))


def _parse(path: Path) -> list[Any]:
    try:
        parsed = json.loads(_read(path).decode(errors="replace"))
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"{path} cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise TraceError(
            f"{path} is not complete JSON: {error}. Fix: profile again; a run that is ended writes half a file"
        ) from error
    events = parsed.get("traceEvents") if isinstance(parsed, dict) else parsed
    if not isinstance(events, list):
        raise TraceError(f"{path} is JSON, but has no list 'traceEvents'. Fix: name a trace of torch.profiler")
    return events


def _read(path: Path) -> bytes:
    content = read_file(path, _MOST_BYTES)
    if path.suffix != ".gz":
        return content
    with gzip.open(io.BytesIO(content)) as stream:
        content = stream.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise too_large(path, _MOST_BYTES)
    return content


def _timed(path: Path, events: list[Any]) -> Iterator[tuple[str, str | None, Event]]:
    """Yield row, category and event of each span; of the label of a row without a category."""
    for each in events:
        if not isinstance(each, dict):
            raise TraceError(f"{path} has an event that is not an object: {reprlib.repr(each):.60}")
        row, phase, name = _text(each.get("pid")), each.get("ph"), _text(each.get("name"))
        if phase == "M" and name in ("process_labels", "process_name"):
            arguments = each.get("args")
            labels = arguments.values() if isinstance(arguments, dict) else ()
            yield from ((row, None, Event(_text(label), 0.0)) for label in labels)
        elif phase == "X":
            yield row, _text(each.get("cat", "")).lower(), Event(name, _duration(path, name, each.get("dur")))


def _text(value: object) -> str:
    """Return a scalar of JSON as text; a list or an object, which may be nested without end, as its type's name."""
    return type(value).__name__ if isinstance(value, (list, dict)) else str(value)


def _duration(path: Path, name: str, found: object) -> float:
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 <= found <= _LONGEST:
        shown = reprlib.repr(found)[:60]
        raise TraceError(f"{path}: event {name!r:.60} has the duration {shown}, not a number from 0 to {_LONGEST:g}")
    return float(found)


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
    name, share = f"{len(rest)} other names" if len(rest) > 1 else "1 other name", sum(row.share for row in rest)
    others = [_add_up(name, rest, share)] if rest else []
    return _lay_out([_COLUMNS, *map(_cells, (*shown, *others, _add_up("all", rows, 1.0)))])


def _add_up(name: str, rows: Sequence[Row], share: float) -> Row:
    count, total = sum(row.count for row in rows), sum(row.total for row in rows)
    return Row(name, count, total, total / count, share)


def _say_nothing(traces: Sequence[Trace]) -> str:
    host: Counter[str] = Counter()
    for trace in traces:
        host.update(trace.host)
    of_the_host = ", ".join(f"{count} {shorten(category)}" for category, count in list(host.items())[:6]) or "none"
    return (
        f"none: the trace has no device's row. Events of the host: {of_the_host}. Fix: check that the vendor's software"
        " traces its device with torch.profiler"
    )


def _cells(row: Row) -> tuple[str, ...]:
    line = shorten(row.name)
    short = line if len(line) <= _LONGEST_NAME else f"{line[: _LONGEST_NAME - 1]}…"
    return short, str(row.count), _with_unit(row.total), _with_unit(row.mean), f"{row.share:.1%}"


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
