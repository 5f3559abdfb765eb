"""The commands ``northbridge conformance`` and ``northbridge compare``: their options and usage errors."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from northbridge.capabilities import LEVEL_CLAIMS

HELP = """Run the conformance suite on a backend, and grant it a level on this machine.

\b
Levels; each includes those before it:
  C0  the plugin          no hardware and no vendor software needed
  C1  one device in torch
  C2  one device in Lightning
  C3  several devices
  C4  endurance and faults

Writes report.json, index.html, report.md and badge.svg into FOLDER. The suite tests what the backend claims and what it
denies, and reports the rest as unknown. A test that hangs is ended, and the suite goes on.
Ctrl-C and SIGTERM end the suite; the report then has the tests that ended. A simulated device gets a simulated level.

\b
Exit codes:
  0  the level is granted; with --only, those tests pass; with --verify, the report is complete and from this suite
  1  otherwise, or if torch cannot be imported, or if a malicious Lightning is installed
  2  wrong usage: an option, the name of a backend, or the value of a NORTHBRIDGE_ variable
"""

COMPARE_HELP = """Compare reports of `northbridge conformance`: a table of the chips, and the tests that differ.

\b
Exit codes:
  0  every test has the same verdict in all reports
  1  the reports differ
  2  wrong usage: an option, fewer than two reports, or a file that is not a report
"""


app: typer.Typer = typer.Typer()
"""What the entry point in the group ``northbridge.commands`` adds to the command ``northbridge``."""


@app.command("conformance", help=HELP)
def run_suite(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The backend.", show_default=False)] = None,
    level: Annotated[str | None, typer.Option(metavar="C0..C4", help="The highest level to run. Default: C3.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The folder for the report. Default: conformance-NAME.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Run only the tests whose id contains TEXT. Grants no level."),
    ] = None,
    verify: Annotated[
        Path | None, typer.Option(metavar="REPORT", help="Check that a report is complete and from this suite.")
    ] = None,
) -> None:
    """Run the suite and write its report, or verify a report."""
    from northbridge.discovery.installed import find
    from northbridge.discovery.simulated import reject_unknown_simulation

    if (name is None) == (verify is None):
        raise typer.BadParameter("give either the name of a backend, or a report with --verify")
    of_a_run = {"--level": level, "--out": out, "--only": only}
    beside = [option for option, value in of_a_run.items() if value is not None]
    if verify is not None and beside:
        raise typer.BadParameter(f"--verify cannot be combined with {', '.join(beside)}")
    if level is not None and level not in LEVEL_CLAIMS:
        raise typer.BadParameter(f"--level={level!r} is not one of {', '.join(LEVEL_CLAIMS)}")
    if name is not None:
        find(name)  # a wrong name is an error before anything starts
        reject_unknown_simulation()
    if verify is not None:
        raise typer.Exit(_verify(verify))
    _reject_without_pytest()
    _reject_malicious_lightning()
    _reject_broken_torch()
    from northbridge_conformance.report import command

    assert name is not None
    raise typer.Exit(command.run(name, level or "C3", out or Path(f"conformance-{name}"), tuple(only or ())))


def _verify(path: Path) -> int:
    from northbridge_conformance.report.report import CHANGED, Report

    report = Report.read(path)
    if report.is_changed:  # first: the rest of a changed report does not count
        print(f"{path}: {CHANGED}")
        return 1
    _reject_broken_torch()
    from northbridge_conformance.report import command

    return command.verify(path, report)


def _reject_without_pytest() -> None:
    """Exit with 2 if pytest is missing, as after pip's ``--no-deps``."""
    if find_spec("pytest") is None:
        print("northbridge: the conformance suite needs pytest. Fix: pip install 'pytest>=8'", file=sys.stderr)
        raise typer.Exit(2)


def _reject_malicious_lightning() -> None:
    """Exit with 1 if a malicious upload is installed: the suite would import it."""
    from northbridge.lightning.versions import reason_against_uploads

    if reason := reason_against_uploads():
        print(f"northbridge: {reason}", file=sys.stderr)
        raise typer.Exit(1)


def _reject_broken_torch() -> None:
    """Exit with 1 if ``import torch`` fails in a child: here, another package's entry point could exit with 0."""
    from northbridge.diagnostics.namespaces import find_torch_problem
    from northbridge.untrusted.text import clean

    if problem := find_torch_problem():
        print(f"northbridge: {clean(problem)}", file=sys.stderr)
        raise typer.Exit(1)


@app.command("compare", help=COMPARE_HELP)
def compare_reports(
    files: Annotated[list[Path], typer.Argument(metavar="REPORT.json", help="Two reports or more.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write an HTML page with the evidence.")] = None,
) -> None:
    """Print the differences between reports, and write them as a page."""
    from northbridge_conformance.report.comparison import compare, show
    from northbridge_conformance.report.report import Report

    comparison = compare([Report.read(file) for file in files])
    show(comparison)
    if out is not None:
        from northbridge_conformance.report.html import render_page, write_page

        write_page(out, render_page(*comparison.reports))
    raise typer.Exit(1 if comparison.differing else 0)
