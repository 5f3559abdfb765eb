"""The command ``northbridge profile``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from northbridge.untrusted.text import clean

HELP = """Show what ran on the device, from traces of torch.profiler.

Prints one table for all TRACES: for each name of a device's event its count, total, mean and share of the time. It is
the table that Lightning's PyTorchProfiler prints on rank 0, for any rank and for traces of other tools.

\b
Exit codes:
  0  the traces have events of a device
  1  they have none
  2  wrong usage: an option, or a file that is missing, damaged or not a trace
"""


def show_profile(
    traces: Annotated[list[Path], typer.Argument(metavar="TRACES", help="Trace files, which may end with .gz.")],
    rows: Annotated[int, typer.Option(min=1, help="The highest number of names to show.")] = 20,
) -> None:
    """Print the table of the device's events in ``traces``."""
    from northbridge.lightning.profilers.trace import TraceError, read_trace, show

    try:
        found = [read_trace(path) for path in traces]
    except TraceError as error:
        print(f"northbridge: {clean(str(error))}", file=sys.stderr)
        raise typer.Exit(2) from None
    print(show(found, rows))
    raise typer.Exit(0 if any(trace.events for trace in found) else 1)
