"""The command ``northbridge``.

Exit codes: 0 all well; hardware or software that is simply not there, and what is switched off, is no error. 1 a
backend is broken, or an installed face of Lightning cannot be served. 2 wrong usage: an option, or the value of a
``NORTHBRIDGE_`` variable.
"""

from __future__ import annotations

import json
import signal
import sys
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated

import typer

from northbridge import listing
from northbridge.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_EXIT_CODES = """\b
Exit codes:
  0  all well (absent hardware or software, and what is off, is no error)
  1  a backend is broken, or an installed face of Lightning cannot be served
  2  wrong usage: an option, or the value of a NORTHBRIDGE_ variable
"""

_LIST = f"""List the installed backends, and what Northbridge did to Lightning.

Each backend is probed in a child process, a few at a time: its plugin is imported, its devices are counted (each
within NORTHBRIDGE_DETECT_TIMEOUT seconds, 20 by default), and its software is loaded, for "loadable" is not guessed.
Some software is compiled when it is first loaded, which takes minutes: --load-timeout bounds it. One more child imports
torch and every installed face of Lightning.

\b
Status of a backend:
  ready        it loads, and its devices are here
  no hardware  this machine has no such device
  no software  the plugin is installed, the vendor's software is not
  broken       the reason stands below the table
  off          NORTHBRIDGE_DISABLE switches it off

{_EXIT_CODES}"""

# Plain help: rich's would cost a tenth of a second, also where no help is shown.
app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


def main() -> None:
    """Run the command; the entry point of the console script."""
    # An end by SIGTERM leaves no child behind, as an end by Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        app()
    except SettingsError as error:
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
    load_timeout: Annotated[
        float, typer.Option(min=1, max=86400, metavar="SECONDS", help="How long one backend may take to load.")
    ] = listing.LOAD_SECONDS,
) -> None:
    """Print what is installed, from metadata or from probing."""
    if no_probe:
        found = listing.read_metadata()
    else:
        from northbridge.settings import CoreSettings

        CoreSettings.read()  # a wrong variable is told before anything starts
        with _spinner(quiet=as_json) as tell:
            found = listing.probe(load_seconds=load_timeout, tell=tell)
    if as_json:
        print(json.dumps(found.as_dict(), indent=2))
    else:
        from northbridge.listing.table import show

        show(found)
    raise typer.Exit(found.broken)


@contextmanager
def _spinner(*, quiet: bool) -> Iterator[Callable[[str, str], None]]:
    """Show on a terminal what the children are doing; elsewhere say once that it takes its time. stdout stays clean."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
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
