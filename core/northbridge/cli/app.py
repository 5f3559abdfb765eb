"""The command ``northbridge``.

Exit codes: 0 all well; missing hardware or software and disabled backends do not count as errors. 1 torch or a backend
is broken, or an installed namespace of Lightning cannot be served. The doctor knows more errors, ``hang`` exits with 1
if a rank waits, ``profile`` if no device was traced, and ``compare`` if reports differ. 2 wrong usage: an option, a
backend's name, the value of a ``NORTHBRIDGE_`` variable, a file that is not a report, or metadata that cannot be read.
The doctor, if asked about one backend, exits with 3 if its software is not installed, and with 4 if its hardware is
missing.
"""

from __future__ import annotations

import signal
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from northbridge.cli import conformance, doctor, hang, list as listing, profile
from northbridge.cli.options import EXIT_CODES
from northbridge.discovery.installed import read_entry_points
from northbridge.errors import (
    BackendConflictError,
    BackendDisabledError,
    BackendNameError,
    BackendNotFoundError,
    InstallationError,
    ReportError,
    SettingsError,
)

_WRONG_NAME = (BackendNotFoundError, BackendDisabledError, BackendConflictError, BackendNameError)

# Plain help: rich's would cost a tenth of a second, even if no help is shown.
app: typer.Typer = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
app.command("conformance", help=conformance.HELP)(conformance.run_suite)
app.command("compare", help=conformance.COMPARE_HELP)(conformance.compare_reports)
app.command("list", help=listing.HELP)(listing.list_backends)
app.command("doctor", help=doctor.HELP)(doctor.examine)
app.command("hang", help=hang.HELP)(hang.explain_hang)
app.command("profile", help=profile.HELP)(profile.show_profile)


def main() -> None:
    """Run the command; the entry point of the console script."""
    # SIGTERM leaves no child behind, like Ctrl-C.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        app()
    except (SettingsError, *_WRONG_NAME, ReportError, InstallationError) as error:
        print(f"northbridge: {error}", file=sys.stderr)
        sys.exit(2)
    except Exception:
        try:
            read_entry_points()  # libraries read them too, pydantic among them
        except InstallationError as error:
            print(f"northbridge: {error}", file=sys.stderr)
            sys.exit(2)
        raise


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"northbridge {version('northbridge')}")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog=EXIT_CODES)
def northbridge(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Train with PyTorch Lightning on any vendor's accelerator."""
    if context.invoked_subcommand is None:
        print(context.get_help())
