"""The command ``northbridge``.

Exit codes: 0 all well; hardware or software that is simply not there, and what is switched off, is no error. 1 torch or
a backend is broken, or an installed namespace of Lightning cannot be served; the doctor knows more that can be wrong,
``hang`` says that somebody waits, and ``compare`` that reports differ. 2 wrong usage: an option, the name of a backend,
the value of a ``NORTHBRIDGE_`` variable, or a file that is no report. 3 and 4 are the doctor's, where it is asked about
one backend: its software is not installed, its hardware is not here.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from northbridge.cli import conformance as reports
from northbridge.diagnostics import listing
from northbridge.errors import (
    BackendConflictError,
    BackendDisabledError,
    BackendNameError,
    BackendNotFoundError,
    ReportError,
    SettingsError,
)
from northbridge.untrusted.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_WRONG_NAME = (BackendNotFoundError, BackendDisabledError, BackendConflictError, BackendNameError)

_EXIT_CODES = """\b
Exit codes:
  0  all well (absent hardware or software, and what is off, is no error)
  1  torch or a backend is broken, or an installed namespace of Lightning cannot be served
  2  wrong usage: an option, the name of a backend, or the value of a NORTHBRIDGE_ variable
"""
_DOCTORS_EXIT_CODES = """\b
Exit codes:
  0  all well
  1  something is wrong
  2  wrong usage: an option, the name of a backend, or the value of a NORTHBRIDGE_ variable
  3  the software of the backend NAME is not installed
  4  the hardware of the backend NAME is not here
"""

_LIST = f"""List the installed backends, and what Northbridge did to Lightning.

Each backend is probed in a child process, a few at a time: its plugin is imported, its devices are counted (each
within NORTHBRIDGE_DETECT_TIMEOUT seconds, 20 by default), and its software is loaded, for "loadable" is not guessed.
Some software is compiled when it is first loaded, which takes minutes: --load-timeout bounds it. One more child imports
torch and every installed namespace of Lightning.

\b
Status of a backend:
  ready        it loads, and its devices are here
  no hardware  this machine has no such device
  no software  the plugin is installed, the vendor's software is not
  unsupported  it does not run on this machine, or with this torch
  broken       the reason stands below the table
  off          NORTHBRIDGE_DISABLE switches it off

{_EXIT_CODES}"""

_DOCTOR = f"""Examine this environment and one backend, or all of them, and say what is wrong and what to do.

Covers Lightning and what was registered in it; how far a backend comes; what it knows of its machine; the environment;
and each line of the backend's contract, which lists what it relies on in its vendor's software, against the software
that is installed. Everything that can crash or hang happens in child processes with time limits. No card is taken,
unless --acquire or --train asks for it.

{_DOCTORS_EXIT_CODES}
Without NAME, software and hardware that are not there are no error, and not an exit code."""

_HANG = """Say who waits for whom in a run that hangs, or has ended so.

Reads the files of FOLDER, which NORTHBRIDGE_FLIGHT_RECORDER named in the run: the last collectives, sends and receives
of every rank, over any communication library. Says which rank has not called what the others wait in, where ranks have
called different things, which waits hang on each other, and where in whose code. The run may still be there; nothing is
done to it. Where several runs share the folder, the newest is read.

\b
Exit codes:
  0  nobody waits
  1  a rank waits for another, ranks disagree, a rank has written nothing, or a file is damaged
  2  wrong usage: an option, or a folder without a record
"""

_LoadTimeout = Annotated[
    float, typer.Option(min=1, max=86400, metavar="SECONDS", help="How long one backend may take to load.")
]

# Plain help: rich's would cost a tenth of a second, also where no help is shown.
app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
reports.add_commands(app)


def main() -> None:
    """Run the command; the entry point of the console script."""
    # An end by SIGTERM leaves no child behind, as an end by Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        app()
    except (SettingsError, *_WRONG_NAME, ReportError) as error:
        print(f"northbridge: {error}", file=sys.stderr)
        sys.exit(2)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"northbridge {version('northbridge')}")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog=_EXIT_CODES)
def northbridge(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Train with PyTorch Lightning on any vendor's accelerator."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command("list", help=_LIST)
def list_backends(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    no_probe: Annotated[
        bool, typer.Option("--no-probe", help="Read metadata alone: start no process, import no plugin.")
    ] = False,
    load_timeout: _LoadTimeout = listing.LOAD_SECONDS,
) -> None:
    """Print what is installed, from metadata or from probing."""
    if no_probe:
        found = listing.read_metadata()
    else:
        from northbridge.discovery.simulated import refuse_unknown_simulation
        from northbridge.settings import CoreSettings

        CoreSettings.read()  # a wrong variable is told before anything starts
        refuse_unknown_simulation()
        with _spinner(quiet=as_json) as tell:
            found = listing.probe(load_seconds=load_timeout, tell=tell)
    if as_json:
        print(json.dumps(found.as_dict(), indent=2))
    else:
        from northbridge.diagnostics.table import show

        show(found)
    raise typer.Exit(found.broken)


@app.command("doctor", help=_DOCTOR)
def examine(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The backend; all of them without.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a page.")] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", dir_okay=False, help="Write the JSON object there, too.")
    ] = None,
    acquire: Annotated[
        bool, typer.Option("--acquire", help="Try also the calls of the contract that take a card.")
    ] = False,
    train: Annotated[
        bool, typer.Option("--train", help="Train a tiny model on one card and on two, a minute each at most.")
    ] = False,
    load_timeout: _LoadTimeout = listing.LOAD_SECONDS,
) -> None:
    """Print, and write, what is wrong and what to do."""
    from northbridge.diagnostics import doctor

    if output is not None and not os.access(output.absolute().parent, os.W_OK):
        raise typer.BadParameter(clean(f"{output.absolute().parent} is no folder that can be written to"))
    doctor.choose(name)  # a wrong name or variable is told before anything starts
    with _spinner(quiet=as_json) as tell:
        found = doctor.examine(name, acquire=acquire, training=train, load_seconds=load_timeout, tell=tell)
    text = json.dumps(found.as_dict(), indent=2)
    if as_json:
        print(text)
    else:
        from northbridge.diagnostics.page import show

        show(found, trained=train)
    if output is not None:
        try:
            output.write_text(text + "\n")
        except OSError as error:
            raise typer.BadParameter(clean(f"{output} could not be written: {error.strerror or error}")) from None
    raise typer.Exit(found.exit_code)


@app.command("hang", help=_HANG)
def explain_hang(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder with the files of all ranks.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a page.")] = False,
) -> None:
    """Print who waits for whom, from what the flight recorder has written."""
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
        print(json.dumps({**facts, **judgement.as_dict()}, indent=2))
    else:
        from northbridge.flight_recorder.analysis.page import show

        show(judgement, run)
    raise typer.Exit(1 if judgement.findings or run.damages else 0)


@contextmanager
def _spinner(*, quiet: bool) -> Iterator[Callable[[str, str], None]]:
    """Show on a terminal what the children are doing; elsewhere say once that it takes its time. stdout stays clean."""
    from rich.text import Text

    from northbridge.untrusted.terminal import Terminal

    console = Terminal(stderr=True)
    if not (quiet or console.is_terminal):
        print(
            "northbridge: asking every backend, and Lightning, in processes of their own; software that is compiled"
            " when it is first loaded takes minutes",
            file=sys.stderr,
        )
    doing: dict[str, str] = {}
    with console.status("starting") as status:

        def tell(who: str, what: str) -> None:
            doing[who] = what
            status.update(Text("; ".join(f"{name}: {each}" for name, each in doing.items() if each)))

        yield tell
