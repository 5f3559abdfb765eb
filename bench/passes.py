"""The engine: it passes over the rows, each time with new processes, until each row is known well enough.

Where a process's memory lies decides its speed by a few percent for as long as it lives, and a shared machine is slower
for minutes: a row is therefore measured a little in each pass, and not all at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby

from bench.child import MeasurementError
from bench.figure import Figure, Measurement
from bench.row import Compared, Row, Timed
from bench.sides import Ask

BUDGET_S = 20 * 60.0
"""The first pass measures each row, however long that takes; after this, no later one goes on."""

LONG_S = 20.0
"""Where one round takes longer, as bfloat16 on a CPU without it does, a pass has only one that is counted."""

_NARROW = 0.02


def measure(rows: Sequence[Row], measured: dict[str, Measurement], *, quick: bool) -> Iterator[Row]:
    """Add to ``measured``, and yield each row that was just measured. Where ``quick``, pass once, a round each.

    Raises :class:`bench.child.MeasurementError`.
    """
    ends = time.monotonic() + BUDGET_S
    first = [row for row in rows if row.name not in measured]
    yield from _pass(first, measured, quick=quick)
    again = {row.name for row in rows if isinstance(row.how, Compared)}  # in new processes, whatever is known
    while not quick and (
        wanted := [row for row in rows if row.name in again or not _is_known(row, measured[row.name])]
    ):
        again.clear()
        for row in _pass(wanted, measured, quick=False):
            yield row
            if time.monotonic() > ends:
                return


def _is_known(row: Row, measurement: Measurement) -> bool:
    """Return True if the interval is narrow, or on one side of the goal."""
    if isinstance(row.how, Timed) and row.how.once:
        return True
    figure = Figure(row, measurement)
    lower, upper = figure.interval
    beside = row.goal is not None and (upper <= row.goal or lower > row.goal)
    return beside or upper - lower <= _NARROW * figure.value


def _pass(rows: Sequence[Row], measured: dict[str, Measurement], *, quick: bool) -> Iterator[Row]:
    """Measure each row once more; neighbours with the same pair share its processes."""
    for _, group in groupby(rows, lambda row: id(row.how.pair) if isinstance(row.how, Compared) else row.name):
        together = list(group)
        try:
            for row, more in _measure_together(together, quick=quick):
                measured[row.name] = measured.get(row.name, Measurement()).plus(more)
                yield row
        except MeasurementError as error:
            raise MeasurementError(f"{', '.join(row.name for row in together)}: {error}") from None


def _measure_together(rows: Sequence[Row], *, quick: bool) -> Iterator[tuple[Row, Measurement]]:
    with ExitStack() as stack:
        sides: tuple[Ask, Ask] | None = None
        for row in rows:
            how, rounds = row.how, 1 if quick else row.how.rounds
            if isinstance(how, Timed):
                yield row, Measurement([how.measure() for _ in range(1 if how.once else rounds)])
            else:
                sides = sides or stack.enter_context(how.pair.open())
                yield row, _compare(how, *sides, rounds=rounds)


def _compare(how: Compared, first: Ask, second: Ask, *, rounds: int) -> Measurement:
    """Ask both, the second first in every other round.

    A machine that grows slower meanwhile does so to both, and neither is always the first.
    """
    asked = ((first, how.questions[0]), (second, how.questions[1]))
    began = time.monotonic()
    if not how.once:
        for ask, question in asked:
            ask(question)
    if time.monotonic() - began > LONG_S:
        rounds = 1
    answers: list[list[float]] = [[], []]
    for number in range(rounds):
        for side in (1, 0) if number % 2 else (0, 1):
            ask, question = asked[side]
            answers[side].append(float(ask(question)[how.answer]))
    return Measurement([one / other for one, other in zip(*answers, strict=True)], answers)
