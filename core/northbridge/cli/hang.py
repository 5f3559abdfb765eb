"""The command ``northbridge hang``."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from northbridge.untrusted.text import clean, clean_values

if TYPE_CHECKING:
    from northbridge.flight_recorder.analysis.calls import RecordedRun
    from northbridge.flight_recorder.analysis.judgement import Judgement

HELP = """Show which rank waits for which, in a run that hangs or has ended in a hang.

Reads FOLDER, to which NORTHBRIDGE_FLIGHT_RECORDER made the run write the last collectives, sends and receives of every
rank. Names the rank that has not made the call in which the others wait, calls that differ between ranks, and waits
that depend on each other, each with its line of code. Does not disturb a run that still hangs. If several runs share
the folder, reads the newest.

\b
Exit codes:
  0  no rank waits
  1  a rank waits for another, ranks disagree, a rank has written nothing, or a file is damaged
  2  wrong usage: an option, or a folder without a record
"""


def explain_hang(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder with the files of all ranks.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a page.")] = False,
) -> None:
    """Print which rank waits for which, from the flight recorder's files."""
    from northbridge.flight_recorder.analysis.judgement import judge
    from northbridge.flight_recorder.analysis.record_files import FolderError, read_folder

    try:
        run = read_folder(folder)
    except FolderError as error:
        print(f"northbridge: {clean(str(error))}", file=sys.stderr)
        raise typer.Exit(2) from None
    judgement = judge(run, time.time())
    if as_json:
        facts = {"world_size": run.world_size, "ranks": sorted(run.logs), "damages": list(run.damages)}
        print(json.dumps(clean_values({**facts, **asdict(judgement)}), indent=2))
    else:
        _show(judgement, run)
    raise typer.Exit(1 if judgement.findings or run.damages else 0)


def _show(judgement: Judgement, run: RecordedRun) -> None:
    from rich.text import Text

    from northbridge.untrusted.terminal import Terminal

    console = Terminal(highlight=False, soft_wrap=False)
    calls = sum(len(log.calls) for log in run.logs.values())
    console.print(f"{len(run.logs)} of {run.world_size} ranks have written; {calls} calls are kept\n")
    for finding in judgement.findings:
        console.print(Text(f"- {finding.text}", style="red"))
    for chain in judgement.chains:
        console.print(Text(f"- {chain}", style="yellow"))
    if not judgement.findings:
        console.print("No rank waits.")
    for damage in run.damages:
        console.print(Text(f"- {damage}", style="red"))
    for note in judgement.notes:
        console.print(Text(f"- {note}"))
