"""Comparison of several reports' tests and claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from northbridge.errors import ReportError
from northbridge_conformance.report.pages.overview import ORDER
from northbridge_conformance.report.pages.units import show_moment
from northbridge_conformance.report.report import Report, TestResult

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
    """The claims whose findings differ."""

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
        tuple(claim for claim in claims if len(set(claim.findings)) > 1),
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
