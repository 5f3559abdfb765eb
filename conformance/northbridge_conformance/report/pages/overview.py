"""Overview of a report, and reasons to doubt it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from northbridge_conformance.report.pages.meanings import CLAIMS, LEVELS, NO_LEVEL, PART, VERDICTS
from northbridge_conformance.report.report import NOT_ASKED, Report, TestResult
from northbridge_conformance.verdict import Ending, Verdict

ORDER = tuple(VERDICTS)
"""Every verdict, the most urgent first."""

FAILURES = (Verdict.FAIL, Verdict.TIMEOUT, Verdict.UNDERCLAIM)
"""The verdicts that the backend causes. They withhold a level, as tests that could not run also do."""

ATTENTION = (*FAILURES, Verdict.VOID)
"""The verdicts that are shown with their evidence and what to do."""


def is_part(report: Report) -> bool:
    """Return True if tests were left out because only part of the suite was requested."""
    return any(test.evidence == NOT_ASKED for test in report.tests)


def name_level(report: Report) -> str:
    """Return the display name of the granted level, such as ``"C3 (simulated)"``, or a text that there is none."""
    if is_part(report):
        return "A part of the suite"
    return report.level.label if report.level is not None else "No level granted"


def explain_level(report: Report) -> str:
    """Return a sentence that explains the granted level."""
    if is_part(report):
        return PART
    return LEVELS.get(report.level.name, report.level.title) if report.level is not None else NO_LEVEL


def count_devices(report: Report) -> str:
    """Return the number and product of the machine's devices: ``"4 × Acme X1"``, or ``"no device"``."""
    backend = report.backend
    return f"{backend.devices} × {backend.label}" if backend.devices else "no device"


def count_verdicts(report: Report) -> dict[Verdict, int]:
    """Return the number of tests with each verdict, in the order of :data:`ORDER`, without zeros."""
    counts = Counter(test.verdict for test in report.tests)
    return {verdict: counts[verdict] for verdict in ORDER if counts[verdict]}


def count_run(report: Report) -> int:
    """Return the number of tests that ran, without those that this machine forbids."""
    return sum(test.ending is not Ending.FORBIDDEN for test in report.tests)


def group_claims(report: Report) -> dict[str, list[str]]:
    """Return the names of the claims by finding; findings without claims are omitted."""
    groups = {
        finding: [name for name, claim in report.claims.items() if claim.finding == finding] for finding in CLAIMS
    }
    return {finding: names for finding, names in groups.items() if names}


def of_verdict(report: Report, *verdicts: Verdict) -> list[TestResult]:
    """Return the tests with one of ``verdicts``, in the order of ``verdicts`` and then of the run."""
    return [test for verdict in verdicts for test in report.tests if test.verdict is verdict]


def group_by_reason(tests: Iterable[TestResult]) -> dict[str, list[TestResult]]:
    """Return the tests that could not run, by reason: one reason often forbids many tests."""
    groups: dict[str, list[TestResult]] = {}
    for test in tests:
        groups.setdefault(test.evidence.strip() or "no reason is given", []).append(test)
    return groups


def missing_tests(report: Report) -> list[str]:
    """Return the ids of the expected tests that have no result in the report."""
    told = {test.id for test in report.tests}
    return [each for each in report.suite.expected if each not in told]


def list_doubts(report: Report) -> list[str]:
    """Return the reasons not to trust the report, a sentence each; empty for a sound report."""
    doubts = []
    if report.suite.mutation:
        doubts.append(
            f"The backend was broken on purpose for this run ({report.suite.mutation}): the report is about the suite,"
            " and proves nothing about the backend."
        )
    if report.suite.options_off:
        doubts.append(
            f"The simulated chip ran without strict options ({'; '.join(report.suite.options_off)}): what it forgave, a"
            " real one may not."
        )
    if report.is_changed:
        doubts.append(
            "The report was changed after it was written: its digest does not fit. Ask for the original, or run the"
            " suite again."
        )
    missing = missing_tests(report)
    if missing:
        doubts.append(
            f"The report is incomplete: {len(missing)} of {len(report.suite.expected)} tests are missing, such as"
            f" {missing[0]}. Run the suite again."
        )
    return doubts
