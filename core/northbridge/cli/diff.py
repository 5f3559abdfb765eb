"""The command ``northbridge diff``."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from northbridge.untrusted.text import clean, clean_values

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
    from northbridge.snapshots.report import compare_runs, show

    try:
        runs = read_run(first), read_run(second)
        answer = compare_runs(*runs)
    except RecordError as error:
        print(f"northbridge: {clean(str(error))}", file=sys.stderr)
        raise typer.Exit(2) from None
    try:
        if page is not None or not as_json:
            show(answer, page=page, silent=as_json)
    except OSError as error:
        raise typer.BadParameter(clean(f"{page} could not be written: {error.strerror or error}")) from None
    if as_json:
        print(json.dumps(clean_values(asdict(answer)), indent=2))
    raise typer.Exit(1 if answer.differs or any(run.damages for run in runs) else 0)
