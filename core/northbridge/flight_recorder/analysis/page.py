"""Printing of the judgement for a person."""

from __future__ import annotations

from rich.text import Text

from northbridge.flight_recorder.analysis.calls import RecordedRun
from northbridge.flight_recorder.analysis.judgement import Judgement
from northbridge.untrusted.terminal import Terminal


def show(judgement: Judgement, run: RecordedRun) -> None:
    """Print everything to stdout."""
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
