"""Overview of a report, and reasons to doubt it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from northbridge.conformance.report.pages.meanings import CLAIMS, LEVELS, NO_LEVEL, PART, VERDICTS
from northbridge.conformance.report.report import NOT_ASKED, Report, TestResult
from northbridge.conformance.verdict import Ending, Verdict

ORDER = tuple(VERDICTS)
"""Every verdict, the most urgent first."""

FAILURES = (Verdict.FAIL, Verdict.TIMEOUT, Verdict.UNDERCLAIM)
"""The verdicts that are the backend's doing; for these, and for what could not run, a level is withheld."""


def is_part(report: Report) -> bool:
    """Return whether tests were left out because only others were asked for."""
    return any(test.evidence == NOT_ASKED for test in report.tests)


def name_level(report: Report) -> str:
    """Return what people call the level that is granted: ``"C3 (simulated)"``, or that there is none."""
    if is_part(report):
        return "A part of the suite"
    return report.level.label if report.level is not None else "No level granted"


def explain_level(report: Report) -> str:
    """Return a sentence on what the level that is granted means."""
    if is_part(report):
        return PART
    return LEVELS.get(report.level.name, report.level.title) if report.level is not None else NO_LEVEL


def count_devices(report: Report) -> str:
    """Return how many devices of which product the machine has: ``"4 × Acme X1"``, or ``"no device"``."""
    backend = report.backend
    return f"{backend.devices} × {backend.label}" if backend.devices else "no device"


def count_verdicts(report: Report) -> dict[Verdict, int]:
    """Return how many tests have each verdict, in the order of :data:`ORDER`; verdicts of none are left out."""
    counts = Counter(test.verdict for test in report.tests)
    return {verdict: counts[verdict] for verdict in ORDER if counts[verdict]}


def count_run(report: Report) -> int:
    """Return how many tests ran; those that this machine forbids did not."""
    return sum(test.ending is not Ending.FORBIDDEN for test in report.tests)


def group_claims(report: Report) -> dict[str, list[str]]:
    """Return the names of the claims by what was found out about them; findings of none are left out."""
    groups = {
        finding: [name for name, claim in report.claims.items() if claim.finding == finding] for finding in CLAIMS
    }
    return {finding: names for finding, names in groups.items() if names}


def of_verdict(report: Report, *verdicts: Verdict) -> list[TestResult]:
    """Return the tests that have one of ``verdicts``, in the order of these and then as they ran."""
    return [test for verdict in verdicts for test in report.tests if test.verdict is verdict]


def group_by_reason(tests: Iterable[TestResult]) -> dict[str, list[TestResult]]:
    """Return tests that could not run by the reason: what forbids one often forbids many."""
    groups: dict[str, list[TestResult]] = {}
    for test in tests:
        groups.setdefault(test.evidence.strip() or "no reason is given", []).append(test)
    return groups


def missing_tests(report: Report) -> list[str]:
    """Return the ids of the tests that were to run and of which the report says nothing."""
    told = {test.id for test in report.tests}
    return [each for each in report.suite.expected if each not in told]


def list_doubts(report: Report) -> list[str]:
    """Return why the report itself is not to be trusted, a sentence each; of a sound one nothing."""
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
    if report.digest != report.compute_digest():
        doubts.append(
            "The report was changed after it was written: its digest does not fit. Ask for the original, or run the"
            " suite again."
        )
    missing = missing_tests(report)
    if missing:
        doubts.append(
            f"The report is not whole: {len(missing)} of {len(report.suite.expected)} tests that were to run are not in"
            f" it, the first of them {missing[0]}. Run the suite again."
        )
    return doubts
