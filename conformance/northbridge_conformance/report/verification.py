"""Verification that a report is complete, and comes from the suite that is installed here."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from northbridge_conformance.levels import LEVELS
from northbridge_conformance.report.facts import digest_sources
from northbridge_conformance.report.grading import grant, judge_claims
from northbridge_conformance.report.report import CHANGED, Report
from northbridge_conformance.runner.supervisor import plan
from northbridge_conformance.verdict import judge


def find_faults(report: Report) -> list[str]:
    """Return every reason not to trust ``report``; empty if it is complete and from this suite.

    A digest finds changes by accident or in passing. It does not stop forgery: if much depends on a report, run the
    suite again.
    """
    return [*_changed(report), *_foreign(report), *_incomplete(report), *_contradictory(report)]


def _changed(report: Report) -> Iterator[str]:
    if report.is_changed:
        yield CHANGED


def _foreign(report: Report) -> Iterator[str]:
    here = version("northbridge")
    if report.suite.northbridge != here:
        yield (
            f"it is from the suite of northbridge {report.suite.northbridge}, and {here} is installed: verify it with"
            " that one"
        )
    elif report.suite.sources != digest_sources():
        yield "it is from a suite whose files differ from those that are installed: one of the two was modified"
    if report.suite.mutation:
        yield f"something was broken on purpose in its run: {report.suite.mutation}"
    if report.suite.options_off:
        yield f"its simulated chip ran without strict options: {'; '.join(report.suite.options_off)}"


def _incomplete(report: Report) -> Iterator[str]:
    levels = tuple(LEVELS)[: list(LEVELS).index(report.suite.asked) + 1] if report.suite.asked in LEVELS else ()
    with tempfile.TemporaryDirectory(prefix="northbridge-conformance-") as folder:
        planned = set(plan(Path(folder), report.backend.name, levels))
    found = {test.id for test in report.tests}
    if len(found) != len(report.tests):
        yield "it has two results of one test"
    if missing := sorted(planned - found):
        yield f"it has no result of {len(missing)} tests up to {report.suite.asked}, such as {missing[0]}"
    if more := sorted(found - planned):
        yield f"it has results of {len(more)} tests that the suite does not have, such as {more[0]}"


def _contradictory(report: Report) -> Iterator[str]:
    from northbridge.capabilities import Claim

    claims = {name: Claim(claim.answer, claim.reason) for name, claim in report.claims.items()}
    wrong = [
        test.id
        for test in report.tests
        if test.verdict is not judge(test.ending, [claims[name] for name in test.claims if name in claims])
    ]
    if wrong:
        yield f"the verdicts on {len(wrong)} tests do not follow from how they ended, such as {wrong[0]}"
    found = judge_claims(claims, report.tests)
    if wrong := sorted(name for name, claim in report.claims.items() if claim != found[name]):
        yield f"what it says of {len(wrong)} claims does not follow from its tests, such as {wrong[0]}"
    levels = grant(report.suite.asked, report.tests, report.claims, simulated=report.backend.simulated)
    if report.suite.asked in LEVELS and levels != report.levels:
        yield "its levels do not follow from its tests"
