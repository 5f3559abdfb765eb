"""The command ``northbridge list``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from northbridge.cli.options import EXIT_CODES, LoadTimeout, spinner
from northbridge.diagnostics import report
from northbridge.processes.environment import compiling_nothing
from northbridge.untrusted.text import clean_values

HELP = f"""List the installed backends, and whether Lightning knows them.

Child processes, a few at a time, import each plugin, count its devices and load its software. They compile nothing.
Counting may take NORTHBRIDGE_DETECT_TIMEOUT seconds, 20 by default; a process that got little CPU time has a second
try, three times as long. Lightning is judged by its release and not imported; `northbridge doctor` imports it.

\b
Status of a backend:
  ready        it loads, and its devices are here
  no hardware  this machine has no such device
  no software  the plugin is installed; the vendor's software is not, or not yet compiled
  unsupported  it does not run on this machine, or with this torch
  timed out    a question to it took longer than its limit: the machine is busy, or the driver hangs
  broken       the reason stands below the table
  off          NORTHBRIDGE_DISABLE switches it off

{EXIT_CODES}"""


def list_backends(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    no_probe: Annotated[
        bool, typer.Option("--no-probe", help="Read only metadata: start no process, import no plugin.")
    ] = False,
    load_timeout: LoadTimeout = report.LOAD_SECONDS,
) -> None:
    """Print the installed backends, from metadata or from probing."""
    if no_probe:
        found = report.read_metadata()
    else:
        report.choose(None)  # a wrong variable is an error before anything starts
        with spinner(quiet=as_json) as tell, compiling_nothing():
            found = report.examine(load_seconds=load_timeout, tell=tell)
    if as_json:
        print(json.dumps(clean_values(found.as_list()), indent=2))
    else:
        from northbridge.diagnostics.table import show

        show(found)
    raise typer.Exit(found.broken)
