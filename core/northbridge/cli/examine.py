"""The commands ``northbridge list`` and ``northbridge doctor``, which examine this environment at two depths."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from northbridge.diagnostics import report
from northbridge.processes.environment import compiling_nothing
from northbridge.untrusted.text import clean, clean_values

EXIT_CODES = """\b
Exit codes:
  0  all well; missing hardware or software and disabled backends do not count as errors
  1  torch or a backend is broken or timed out, or an installed namespace of Lightning cannot be served
  2  wrong usage: an option, the name of a backend, or the value of a NORTHBRIDGE_ variable
"""

LoadTimeout = Annotated[
    float, typer.Option(min=1, max=86400, metavar="SECONDS", help="The time limit for loading one backend.")
]


@contextmanager
def spinner(*, quiet: bool) -> Iterator[Callable[[str, str], None]]:
    """Show the children's stages on a terminal; elsewhere print once that it takes time. stdout stays clean."""
    from rich.text import Text

    from northbridge.untrusted.terminal import Terminal

    console = Terminal(stderr=True)
    if not (quiet or console.is_terminal):
        print("northbridge: asking in child processes, which may take minutes", file=sys.stderr)
    doing: dict[str, str] = {}
    with console.status("starting") as status:

        def tell(who: str, what: str) -> None:
            doing[who] = what
            status.update(Text("; ".join(f"{name}: {each}" for name, each in doing.items() if each)))

        yield tell


LIST_HELP = f"""List the installed backends, and whether Lightning knows them.

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


_DOCTOR_EXIT_CODES = """\b
Exit codes:
  0  all well
  1  something is wrong
  2  wrong usage: an option, the name of a backend, or the value of a NORTHBRIDGE_ variable
  3  the software of the backend NAME is not installed
  4  the hardware of the backend NAME is not here
"""

DOCTOR_HELP = f"""Examine this environment and one backend, or all backends; print problems and fixes.

Covers Lightning and the names registered in it, the state of each backend, its machine, and the environment. Compares
each line of a backend's contract, the list of vendor symbols that it relies on, with the installed software. Steps that
can crash or hang run in child processes with time limits. Takes no card without --acquire or --train.

{_DOCTOR_EXIT_CODES}
Without NAME, missing software and hardware do not count as errors."""


def diagnose(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The backend. Default: all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a page.")] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Also write the JSON object to FILE.")
    ] = None,
    acquire: Annotated[
        bool, typer.Option("--acquire", help="Also try the calls of the contract that take a card.")
    ] = False,
    train: Annotated[
        bool, typer.Option("--train", help="Train a tiny model on one card and on two, a minute each at most.")
    ] = False,
    wheel: Annotated[str | None, typer.Option(hidden=True)] = None,
    load_timeout: LoadTimeout = report.LOAD_SECONDS,
) -> None:
    """Print and write the faults and their fixes."""
    if wheel is not None:
        asked = clean(f"{name or 'NAME'} {wheel}")
        raise typer.BadParameter(f"--wheel is gone. Fix: python -m tools.contract {asked}, in a clone of Northbridge")
    if output is not None and not os.access(output.absolute().parent, os.W_OK):
        raise typer.BadParameter(clean(f"{output.absolute().parent} is not a writable folder"))
    report.choose(name)  # a wrong name or variable is an error before anything starts
    with spinner(quiet=as_json) as tell:
        found = report.examine(name, deep=True, acquire=acquire, training=train, load_seconds=load_timeout, tell=tell)
    text = json.dumps(clean_values(found.as_dict()), indent=2)
    if as_json:
        print(text)
    else:
        from northbridge.diagnostics.page import show

        show(found, trained=train)
    _write(text, output)
    raise typer.Exit(found.exit_code)


def _write(text: str, output: Path | None) -> None:
    if output is None:
        return
    try:
        output.write_text(text + "\n")
    except OSError as error:
        raise typer.BadParameter(clean(f"{output} could not be written: {error.strerror or error}")) from None
