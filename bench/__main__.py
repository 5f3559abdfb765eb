"""``python -m bench [--quick] [--only NAME …] [--go-on]``: measure, write ``bench/report.json``, and print a table.

What is measured is written at once, and ``--go-on`` adds to it. Where every row was measured, and not quickly,
``bench/figures.md`` and ``docs/measured.md`` are written and its picture drawn too.

Exit codes: 0 every goal is met, or it is known why not; 1 one is missed; 2 wrong usage; 3 something could not be
measured; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.child import MeasurementError
from bench.figure import Figure, Measurement
from bench.passes import measure
from bench.report import REPORT, Surroundings, as_dict, write
from bench.row import Row
from bench.rows import ROWS
from bench.table import amount, table

_KEPT = "what was measured is kept: make bench GO_ON=1 goes on"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure what Northbridge costs.")
    parser.add_argument("--quick", action="store_true", help="one round: to see that it runs, not what it measures")
    names = [row.name for row in ROWS]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=f"of: {', '.join(names)}")
    parser.add_argument("--go-on", action="store_true", help="keep what a run that was stopped has measured here")
    asked = parser.parse_args(arguments)

    console = Console()
    surroundings = Surroundings.look()
    try:
        measured = _resume(surroundings, quick=asked.quick) if asked.go_on else {}
        figures = _measure(
            [row for row in ROWS if row.name in (asked.only or names)], measured, surroundings, asked.quick
        )
    except _StoppedError as error:
        print(error, file=sys.stderr)
        return error.code
    console.print(table(figures, quick=asked.quick))
    console.print(f"written to {REPORT}", highlight=False, soft_wrap=True)
    if not asked.quick and len(figures) == len(ROWS):
        console.print(f"shown in {_show()}", highlight=False, soft_wrap=True)
    return int(any(figure.verdict == "MISSED" for figure in figures))


class _StoppedError(Exception):
    """The run ends here; the message says why."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def _resume(surroundings: Surroundings, *, quick: bool) -> dict[str, Measurement]:
    from bench.recorded import ReportFileError, resume

    try:
        return resume(surroundings, quick=quick, file=REPORT)
    except ReportFileError as error:
        raise _StoppedError(2, f"python -m bench: {error}") from None


def _measure(
    rows: Sequence[Row], measured: dict[str, Measurement], surroundings: Surroundings, quick: bool
) -> list[Figure]:
    said = Console(stderr=True)
    try:
        for row in measure(rows, measured, quick=quick):
            write(as_dict(_figures(measured), surroundings, quick=quick))
            figure = Figure(row, measured[row.name])
            said.print(f"{row.name}: {amount(figure.value, row.unit)}", highlight=False)
    except MeasurementError as error:
        raise _StoppedError(3, f"could not be measured: {error}\n{_KEPT}") from None
    except KeyboardInterrupt:
        raise _StoppedError(130, f"stopped; {_KEPT}") from None
    return _figures(measured)


def _figures(measured: dict[str, Measurement]) -> list[Figure]:
    return [Figure(row, measured[row.name]) for row in ROWS if row.name in measured]


def _show() -> Path:
    # After the measuring: a child's memory begins with this process's.
    from bench.page import PAGE, show
    from bench.recorded import read

    show(read())
    return PAGE


if __name__ == "__main__":
    sys.exit(main())
