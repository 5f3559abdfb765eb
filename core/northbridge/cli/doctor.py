"""The command ``northbridge doctor``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from northbridge.cli.options import LoadTimeout, spinner
from northbridge.diagnostics import report
from northbridge.untrusted.text import clean, clean_values

_EXIT_CODES = """\b
Exit codes:
  0  all well
  1  something is wrong
  2  wrong usage: an option, the name of a backend, or the value of a NORTHBRIDGE_ variable
  3  the software of the backend NAME is not installed
  4  the hardware of the backend NAME is not here
"""

HELP = f"""Examine this environment and one backend, or all backends; print problems and fixes.

Covers Lightning and the names registered in it, the state of each backend, its machine, and the environment. Compares
each line of a backend's contract, the list of vendor symbols that it relies on, with the installed software. Steps that
can crash or hang run in child processes with time limits. Takes no card without --acquire or --train.

{_EXIT_CODES}
Without NAME, missing software and hardware do not count as errors."""


def examine(
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
