"""The command ``northbridge conformance``: its output, its files and its exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from rich.text import Text

from northbridge.errors import ReportError
from northbridge.untrusted.terminal import Terminal
from northbridge.untrusted.text import clean
from northbridge_conformance.levels import LEVELS
from northbridge_conformance.report.badge import render_badge
from northbridge_conformance.report.failure import say_plainly
from northbridge_conformance.report.html import render_page, write_page
from northbridge_conformance.report.markdown import render_markdown
from northbridge_conformance.report.overview import (
    ATTENTION,
    count_operators,
    group_claims,
    is_part,
    list_doubts,
    list_silent_errors,
    of_verdict,
    repeat,
    summarize,
)
from northbridge_conformance.report.report import NOT_ASKED, Report
from northbridge_conformance.report.suite_run import find_faults, run_suite
from northbridge_conformance.runner.supervisor import Course, SuiteError
from northbridge_conformance.verdict import Verdict

_SHOWN = 12
"""The number of failed tests that the terminal shows; the page has them all."""


def run(name: str, level: str, folder: Path, only: tuple[str, ...]) -> int:
    """Run the suite, write the report into ``folder``, and return the exit code. Raises :class:`ReportError`."""
    _reject_unwritable(folder)
    console = Terminal(highlight=False)
    with _progress(name, level) as tell:
        try:
            report = run_suite(name, level, only=only, tell=tell)
        except SuiteError as error:
            raise ReportError(f"pytest could not run the suite on {name!r}: {error}") from None
        except (KeyboardInterrupt, SystemExit):  # before the first test had ended
            earlier = f"; what is in {folder} is an earlier run's" if (folder / "report.json").exists() else ""
            print(f"northbridge: the suite was interrupted, and no report was written{earlier}", file=sys.stderr)
            raise
    asked_for = [test for test in report.tests if test.evidence != NOT_ASKED]
    if not asked_for:
        words = " or ".join(map(repr, only))
        raise ReportError(f"no test up to {level} has {words} in its id. Fix: see a report")
    written = write_all(report, folder)
    show(console, report)
    console.print(Text(f"\n{next(path for path in written if path.suffix == '.html')}"), soft_wrap=True)
    if only:
        return int(any(test.verdict not in (Verdict.PASS, Verdict.UNKNOWN) for test in asked_for))
    return 0 if report.levels[-1].granted else 1


def write_all(report: Report, folder: Path) -> list[Path]:
    """Write the report and every page of it into ``folder``, and return the files.

    Each file appears when it is complete. Raises :class:`ReportError` if one cannot be written.
    """
    texts = {
        "report.json": report.to_json(),
        "index.html": render_page(report),
        "report.md": render_markdown(report),
        "badge.svg": render_badge(report),
    }
    return [write_page(folder / name, text) for name, text in texts.items()]


def verify(path: Path, report: Report) -> int:
    """Print the reasons to distrust the report, if any; return the exit code. Raises :class:`ReportError`."""
    try:
        faults = find_faults(report)
    except SuiteError as error:
        raise ReportError(f"{path}: the suite of {report.backend.name!r} did not load: {error}") from None
    for fault in faults:
        print(clean(f"{path}: {fault}"))
    if not faults:
        label = report.level.label if report.level else "no level"
        print(clean(f"{path}: complete, and from the installed suite; {report.backend.name} has {label}"))
    return 1 if faults else 0


def show(console: Terminal, report: Report) -> None:
    """Print a summary of the report; for a part of the suite, each test and no level."""
    part = is_part(report)
    console.print(Text(summarize(report), style="bold"), soft_wrap=True)
    console.print(Text(f"  backend {report.backend.name!r}, {report.backend.distribution} {report.backend.version}"))
    for doubt in list_doubts(report):
        console.print(Text(f"  {doubt}", style="yellow"))
    for error in list_silent_errors(report):
        console.print(Text(f"  {clean(error)}", style="yellow"), soft_wrap=True)
    if report.backend.problem:
        console.print(Text(f"  It could not be loaded: {clean(report.backend.problem)}"), soft_wrap=True)
    (_show_tests if part else _show_levels)(console, report)
    failures = of_verdict(report, *ATTENTION)
    for test in failures[:_SHOWN]:
        console.print(Text(f"\n{test.verdict.value}  {test.id}", style="bold"), soft_wrap=True)
        for line in say_plainly(clean(test.evidence)).splitlines():
            console.print(Text(f"    {line}"), soft_wrap=True)
        console.print(Text(f"    → {test.advice}"), soft_wrap=True)
        console.print(Text(f"    $ {repeat(report, test)}"), soft_wrap=True)
    if len(failures) > _SHOWN:
        console.print(f"\nand {len(failures) - _SHOWN} further tests")


def _show_levels(console: Terminal, report: Report) -> None:
    for level in report.levels:
        mark = "granted" if level.granted else "withheld"
        console.print(Text(f"  {level.name}  {level.title}: {mark}, {level.cases} tests ran"))
        for reason in level.withheld[:_SHOWN]:
            console.print(Text(f"      {reason}"), soft_wrap=True)
        if len(level.withheld) > _SHOWN:
            console.print(f"      and {len(level.withheld) - _SHOWN} further reasons")
    counts = (f"{len(names)} {finding}" for finding, names in group_claims(report).items())
    console.print(Text(f"  claims: {', '.join(counts)}"))
    if operators := count_operators(report):
        console.print(Text(f"  operators of torch: {operators}"))


def _show_tests(console: Terminal, report: Report) -> None:
    for test in of_verdict(report, Verdict.NOT_RUN, Verdict.UNKNOWN, Verdict.PASS):
        if test.evidence != NOT_ASKED:
            why = f": {clean(test.evidence)}" if test.verdict is Verdict.NOT_RUN else ""
            console.print(Text(f"{test.verdict.value}  {test.id}{why}"), soft_wrap=True)


@contextmanager
def _progress(name: str, level: str) -> Iterator[Callable[[Course, str], None]]:
    """Show the current test on a terminal; elsewhere print a line when each level begins."""
    console = Terminal(stderr=True)
    seen: set[str] = set()
    with console.status(f"conformance of {name}, up to {level}: collecting") as status:

        def tell(course: Course, test: str) -> None:
            counted = f"{len(course.ended)} of {len(course.chosen)}"
            status.update(Text(f"{counted}  {test}"))
            current = test.partition("/")[0]
            if current not in seen and not console.is_terminal:
                print(
                    f"northbridge: {current}, {LEVELS[current].title.lower()} ({counted} tests done)", file=sys.stderr
                )
            seen.add(current)

        yield tell


def _reject_unwritable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ReportError(f"cannot write into {folder}: {error.strerror}. Fix: another --out") from None
