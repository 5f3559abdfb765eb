"""A report that is not whole, or not of this suite, is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from northbridge.conformance.report import verification
from northbridge.conformance.report.facts import Facts
from northbridge.conformance.report.report import BackendFacts, Report
from northbridge.conformance.report.verification import find_faults
from northbridge.conformance.runner.event_log import Ended, Planned
from northbridge.conformance.runner.suite_run import make_report
from northbridge.conformance.runner.supervisor import Course
from northbridge.conformance.verdict import Ending, Verdict

PLAN = {
    f"C0/Plugin/test_{number}": Planned(
        id=f"C0/Plugin/test_{number}", chosen=True, level="C0", topic="A plugin.", title="", claims=(), advice=""
    )
    for number in range(3)
}


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Report:
    """A whole one, of a suite of three tests."""
    monkeypatch.setattr(verification, "plan", lambda *_: PLAN)
    backend = BackendFacts(name="acme", distribution="northbridge-acme", version="1.0")
    ended = {name: Ended(id=name, ending=Ending.WORKED, seconds=0.1) for name in PLAN}
    return make_report(
        Facts(backend),
        "C0",
        Course(dict(PLAN), ended),
        {},
        began="2026-11-24T12:00:00+00:00",
        seconds=1.0,
    )


def test_a_whole_report_has_no_fault(report: Report) -> None:
    assert report.level is not None
    assert report.level.label == "C0"
    assert find_faults(report) == []


def change(report: Report, **facts: Any) -> Report:
    return report.model_copy(update=facts).sealed()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (lambda report: report.model_copy(update={"seconds": 2.0}), "its digest is not that of what it says"),
        (
            lambda report: change(report, suite=report.suite.model_copy(update={"sources": "0" * 64})),
            "a suite whose files differ from those that are installed",
        ),
        (
            lambda report: change(report, suite=report.suite.model_copy(update={"northbridge": "9.9"})),
            "it is from the suite of northbridge 9.9",
        ),
        (
            lambda report: change(report, suite=report.suite.model_copy(update={"mutation": "a dropped rank"})),
            "something was broken on purpose in its run: a dropped rank",
        ),
        (
            lambda report: change(report, suite=report.suite.model_copy(update={"spared": ("STREAMS=immediate",)})),
            "its simulated chip ran without strict options: STREAMS=immediate",
        ),
        (
            lambda report: change(
                report,
                claims={
                    **report.claims,
                    "fit": report.claims["fit"].model_copy(update={"finding": "proved", "tests": 99}),
                },
            ),
            "what it says of 1 claims does not follow from its tests, such as fit",
        ),
        (
            lambda report: change(report, tests=report.tests[:2]),
            "it has no result of 1 tests up to C0, such as C0/Plugin/test_2",
        ),
        (lambda report: change(report, tests=report.tests + report.tests[:1]), "it has two results of one test"),
        (
            lambda report: change(
                report, tests=(*report.tests, report.tests[0].model_copy(update={"id": "C0/Mine/test_all"}))
            ),
            "it has results of 1 tests that the suite does not have, such as C0/Mine/test_all",
        ),
        (
            lambda report: change(
                report,
                tests=(report.tests[0].model_copy(update={"ending": Ending.FAILED}), *report.tests[1:]),
            ),
            "the verdicts on 1 tests do not follow from how they ended",
        ),
        (
            lambda report: change(
                report,
                tests=(
                    report.tests[0].model_copy(update={"ending": Ending.FAILED, "verdict": Verdict.FAIL}),
                    *report.tests[1:],
                ),
            ),
            "its levels do not follow from its tests",
        ),
    ],
)
def test_what_is_wrong_with_it_is_told(report: Report, changed: Callable[[Report], Report], words: str) -> None:
    assert any(words in fault for fault in find_faults(changed(report)))
