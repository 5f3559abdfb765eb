"""The command ``northbridge diff``."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from northbridge.untrusted.text import clean, clean_values

if TYPE_CHECKING:
    from northbridge.snapshots.report import Answer

HELP = """Show where two runs first differ by more than rounding.

Reads the folders A and B, to which northbridge.Snapshots made two runs write their steps. Aligns them by step, module
and call. Says in one sentence where the first difference is, in forward, gradient or update, and its cause. Prints the
distances of the modules around it, and the largest of each step.

\b
Exit codes:
  0  the runs are equal, or differ by rounding alone
  1  they differ by more, or a file is damaged
  2  wrong usage: an option, a folder without a record, or runs that cannot be compared
"""


def explain_difference(
    first: Annotated[Path, typer.Argument(metavar="A", help="The folder of the run that is right.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="The folder of the other run.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    page: Annotated[
        Path | None, typer.Option("--page", metavar="FILE", dir_okay=False, help="Also write a page of HTML to FILE.")
    ] = None,
) -> None:
    """Print where two runs first differ, from their snapshots."""
    from northbridge.snapshots.records import RecordError, read_run
    from northbridge.snapshots.report import compare_runs

    try:
        runs = read_run(first), read_run(second)
        answer = compare_runs(*runs)
    except RecordError as error:
        print(f"northbridge: {clean(str(error))}", file=sys.stderr)
        raise typer.Exit(2) from None
    try:
        if page is not None or not as_json:
            _show(answer, page=page, silent=as_json)
    except OSError as error:
        raise typer.BadParameter(clean(f"{page} could not be written: {error.strerror or error}")) from None
    if as_json:
        facts = json.loads(json.dumps(asdict(answer)), parse_constant=lambda _: None)  # JSON has no infinity
        print(json.dumps(clean_values(facts), indent=2))
    raise typer.Exit(1 if answer.differs or any(run.damages for run in runs) else 0)


def _show(answer: Answer, *, page: Path | None = None, silent: bool = False) -> None:
    """Print the answer, and write it as a page of HTML that needs no other file. Raises ``OSError``."""
    from rich.text import Text

    from northbridge.diagnostics.table import add_row, make_table
    from northbridge.snapshots.report import KINDS, say_number
    from northbridge.untrusted.terminal import Terminal

    file = StringIO() if silent else None
    console = Terminal(highlight=False, soft_wrap=False, record=page is not None, file=file)
    console.print(Text(answer.sentence, style="red" if answer.differs else "green"))
    for note in answer.notes:
        console.print(Text(f"- {note}", style="yellow"))
    if answer.table:
        console.print(f"\nstep {answer.step}, by layer")
        table = make_table("module", *KINDS, "dtype", folding=("module",))
        for row in answer.table:
            dtypes = " ".join(dict.fromkeys(row.dtypes))
            style = "red" if answer.differs and row.path == answer.path else ""
            add_row(table, style, row.path or "the model", *(say_number(getattr(row, kind)) for kind in KINDS), dtypes)
        console.print(table)
    console.print("\nthe largest distance over steps")
    table = make_table("step", *KINDS, "")
    for step, *distances in answer.curve:
        add_row(table, "", f"{step:.0f}", *map(say_number, distances), "█" * _bar(max(distances)))
    console.print(table)
    if page is not None:
        page.write_text(console.export_html(), encoding="utf-8")


def _bar(number: float) -> int:
    """Return a length from 0 to 20: the logarithm, from 1e-9 to 1."""
    return 0 if number == 0 else 20 if number >= 1 else max(1, round(20 * (1 + math.log10(number) / 9)))
