"""The command ``northbridge``. The help of each of its commands has its exit codes."""

from __future__ import annotations

import signal
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from northbridge.cli import diff, examine, hang, profile
from northbridge.discovery.installed import NO_SUITE, read_entry_points
from northbridge.errors import (
    BackendConflictError,
    BackendDisabledError,
    BackendNameError,
    BackendNotFoundError,
    InstallationError,
    ReportError,
    SettingsError,
)
from northbridge.processes.endings import describe_error

_WRONG_NAME = (BackendNotFoundError, BackendDisabledError, BackendConflictError, BackendNameError)

# Plain help: rich's would cost a tenth of a second, even if no help is shown.
app: typer.Typer = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
app.command("list", help=examine.LIST_HELP)(examine.list_backends)
app.command("doctor", help=examine.DOCTOR_HELP)(examine.diagnose)
app.command("hang", help=hang.HELP)(hang.explain_hang)
app.command("diff", help=diff.HELP)(diff.explain_difference)
app.command("profile", help=profile.HELP)(profile.show_profile)


COMMANDS = "northbridge.commands"
"""The entry-point group. An entry is an app of typer, whose commands this one gets: ``acme = "acme.commands:app"``."""


def main() -> None:
    """Run the command; the entry point of the console script."""
    # SIGTERM leaves no child behind, like Ctrl-C.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    try:
        _add_commands()
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


def _add_commands() -> None:
    for entry in read_entry_points().select(group=COMMANDS):
        try:
            app.registered_commands += entry.load().registered_commands
        except Exception as error:  # noqa: BLE001 - it is told; the other commands may be what finds the reason
            said = f"{entry.value}: its commands are missing: {describe_error(error)}. Fix: reinstall it"
            print(f"northbridge: {said}", file=sys.stderr)
    anything = {"ignore_unknown_options": True, "allow_extra_args": True}
    for name in {"conformance", "compare"} - {each.name for each in app.registered_commands}:
        app.command(name, hidden=True, context_settings=anything)(_reject_without_suite)


def _reject_without_suite() -> None:
    raise InstallationError(NO_SUITE)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"northbridge {version('northbridge')}")
        raise typer.Exit


@app.callback(invoke_without_command=True, epilog=examine.EXIT_CODES)
def northbridge(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Train with PyTorch Lightning on any vendor's accelerator."""
    if context.invoked_subcommand is None:
        print(context.get_help())
