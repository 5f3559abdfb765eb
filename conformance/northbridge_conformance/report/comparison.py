"""Comparison of several reports' tests and claims, and its table on the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from northbridge.diagnostics.table import add_row, make_table
from northbridge.errors import ReportError
from northbridge.untrusted.terminal import Terminal
from northbridge.untrusted.text import clean
from northbridge_conformance.report.overview import MARKS, ORDER, count_verdicts, list_doubts, name_level, show_moment
from northbridge_conformance.report.report import Report, TestResult
from northbridge_conformance.verdict import Verdict

ABSENT = "absent"
"""The text for a report that lacks a test's result or a claim."""


@dataclass(frozen=True)
class ComparedTest:
    """One test and its result in each report; None if a report has no result."""

    id: str
    title: str
    level: str
    results: tuple[TestResult | None, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The verdicts, as the pages show them."""
        return tuple(result.verdict.value if result is not None else ABSENT for result in self.results)

    @property
    def differs(self) -> bool:
        """True if the reports disagree."""
        return len(set(self.words)) > 1

    @property
    def worst(self) -> int:
        """The position in :data:`ORDER` of the most urgent verdict."""
        return min(ORDER.index(result.verdict) if result is not None else len(ORDER) for result in self.results)


@dataclass(frozen=True)
class ComparedClaim:
    """One claim and each report's finding about it."""

    name: str
    findings: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The findings, each with its sign."""
        return tuple(f"{MARKS.get(finding, '')} {finding}".lstrip() for finding in self.findings)


@dataclass(frozen=True)
class Comparison:
    """Reports side by side."""

    reports: tuple[Report, ...]
    labels: tuple[str, ...]
    """Facts that distinguish each report from the others."""

    differing: tuple[ComparedTest, ...]
    """The tests whose verdicts differ, the most urgent first."""

    same: tuple[ComparedTest, ...]
    claims: tuple[ComparedClaim, ...]
    """Every claim of the reports."""

    @property
    def warning(self) -> str:
        """The reason why the reports are hard to compare; empty if there is none."""
        if len({report.suite.sources for report in self.reports}) == 1:
            return ""
        versions = ", ".join(
            f"{label}: Northbridge {report.suite.northbridge}, suite {report.suite.sources[:12]}"
            for label, report in zip(self.labels, self.reports, strict=True)
        )
        return (
            "These reports are of different suites: a test of the same name may ask for something else, so run the same"
            f" suite for each where you can ({versions})."
        )


def compare(reports: Sequence[Report]) -> Comparison:
    """Compare two or more reports, test by test; raises :class:`ReportError` for fewer."""
    if len(reports) < 2:
        raise ReportError(f"comparing needs two reports, found {len(reports)}")
    by_id = [{test.id: test for test in report.tests} for report in reports]
    tests = []
    for id_ in dict.fromkeys(test.id for report in reports for test in report.tests):
        results = tuple(each.get(id_) for each in by_id)
        one = next(result for result in results if result is not None)
        tests.append(ComparedTest(id_, one.title, one.level, results))
    names = dict.fromkeys(name for report in reports for name in report.claims)
    claims = [ComparedClaim(name, tuple(_finding(report, name) for report in reports)) for name in names]
    return Comparison(
        tuple(reports),
        _label(reports),
        tuple(sorted((test for test in tests if test.differs), key=lambda test: test.worst)),
        tuple(test for test in tests if not test.differs),
        tuple(claims),
    )


def _finding(report: Report, claim: str) -> str:
    found = report.claims.get(claim)
    return found.finding if found is not None else ABSENT


def _label(reports: Sequence[Report]) -> tuple[str, ...]:
    """Return the shortest labels that distinguish the reports."""
    names = [report.backend.name for report in reports]
    with_kinds = [
        f"{report.backend.name} (simulated)" if report.backend.simulated else name
        for name, report in zip(names, reports, strict=True)
    ]
    with_versions = [f"{report.backend.name} {report.backend.version}" for report in reports]
    with_moments = [f"{name}, {show_moment(report.began)}" for name, report in zip(with_versions, reports, strict=True)]
    numbered = [f"{name} ({number})" for number, name in enumerate(names, start=1)]
    for labels in (names, with_kinds, with_versions, with_moments):
        if len(set(labels)) == len(labels):
            return tuple(labels)
    return tuple(numbered)


_STYLES = {Verdict.FAIL.value: "red", Verdict.TIMEOUT.value: "red", Verdict.UNDERCLAIM.value: "magenta"}
_SIDE_BY_SIDE = " | "


def show(comparison: Comparison) -> None:
    """Print a table of the reports' chips, and the tests on which the reports differ, to stdout."""
    console = Terminal(highlight=False)
    _show_chips(console, comparison)
    for label, report in zip(comparison.labels, comparison.reports, strict=True):
        for doubt in list_doubts(report):
            console.print(Text(clean(f"\n{label}: {doubt}"), style="yellow"))
    if comparison.warning:
        console.print(Text(clean(f"\n{comparison.warning}"), style="yellow"))
    console.print()
    if not comparison.differing:
        console.print(f"The same verdicts: {_tests(len(comparison.same))}.")
        return
    console.print(f"{_tests(len(comparison.differing))} differ, {len(comparison.same)} have the same verdict:\n")
    _show_differing(console, comparison)


def _show_differing(console: Terminal, comparison: Comparison) -> None:
    """Print the tests that are in all reports or fail in one; count the others that each report lacks."""
    told: list[ComparedTest] = []
    absent: list[ComparedTest] = []
    for test in comparison.differing:
        (absent if ABSENT in test.words and _STYLES.keys().isdisjoint(test.words) else told).append(test)
    width = max((len(_SIDE_BY_SIDE.join(test.words)) for test in told), default=0)
    if told:
        console.print(Text(clean(_SIDE_BY_SIDE.join(comparison.labels)), style="bold"), soft_wrap=True)
    for test in told:
        style = next((_STYLES[word] for word in test.words if word in _STYLES), "")
        line = f"{_SIDE_BY_SIDE.join(test.words):{width}}  {clean(test.id)}"
        console.print(Text(line, style=style), soft_wrap=True)  # a wrapped id cannot be searched for
    missing = Counter(
        (label, test.level)
        for test in absent
        for label, word in zip(comparison.labels, test.words, strict=True)
        if word == ABSENT
    )
    for (label, level), number in missing.items():
        console.print(Text(clean(f"{label} has no result of {_tests(number)} of {level}")), soft_wrap=True)


def _show_chips(console: Terminal, comparison: Comparison) -> None:
    """Print a table with a column for each report: its level, its tests by verdict, and its claims."""
    counts = [count_verdicts(report) for report in comparison.reports]
    labels = [clean(label) for label in comparison.labels]
    table = make_table("", *labels, folding=("", *labels))
    add_row(table, "bold", "level", *map(name_level, comparison.reports))
    for verdict in reversed(ORDER):
        if any(verdict in each for each in counts):
            add_row(table, "", f"tests: {verdict.value}", *(str(each.get(verdict, 0)) for each in counts))
    for claim in comparison.claims:
        add_row(table, "", clean(claim.name), *claim.words)
    console.print(table)


def _tests(number: int) -> str:
    return "1 test" if number == 1 else f"{number} tests"
