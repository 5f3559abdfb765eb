"""A report that is not whole, or not of this suite, is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from northbridge_conformance.report import verification
from northbridge_conformance.report.facts import Facts
from northbridge_conformance.report.report import BackendFacts, Report, TestResult
from northbridge_conformance.report.suite_run import make_report
from northbridge_conformance.report.verification import find_faults
from northbridge_conformance.runner.event_log import Ended, Planned
from northbridge_conformance.runner.supervisor import Course
from northbridge_conformance.verdict import Ending, Verdict

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
    course = Course(dict(PLAN), ended)
    return make_report(Facts(backend), "C0", course, {}, began="2026-11-24T12:00:00+00:00", seconds=1.0)


def test_a_whole_report_has_no_fault(report: Report) -> None:
    assert report.level is not None
    assert report.level.label == "C0"
    assert find_faults(report) == []


def with_first(report: Report, **facts: Any) -> tuple[TestResult, ...]:
    """Return the tests of ``report``, of the first of which something is changed."""
    first, *others = report.tests
    return (first.model_copy(update=facts), *others)


def test_a_report_that_was_changed_is_told(report: Report) -> None:
    (fault,) = find_faults(report.model_copy(update={"seconds": 2.0}))

    assert fault.startswith("its digest does not match its content")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sources": "0" * 64}, "a suite whose files differ from those that are installed"),
        ({"northbridge": "9.9"}, "it is from the suite of northbridge 9.9"),
        ({"mutation": "a dropped rank"}, "something was broken on purpose in its run: a dropped rank"),
        ({"options_off": ("STREAMS=immediate",)}, "its simulated chip ran without strict options: STREAMS=immediate"),
    ],
)
def test_a_report_of_another_suite_is_told(report: Report, changed: dict[str, Any], words: str) -> None:
    suite = report.suite.model_copy(update=changed)

    assert any(words in fault for fault in find_faults(report.model_copy(update={"suite": suite}).sealed()))


@pytest.mark.parametrize(
    ("tests", "words"),
    [
        (lambda report: report.tests[:2], "it has no result of 1 tests up to C0, such as C0/Plugin/test_2"),
        (lambda report: report.tests + report.tests[:1], "it has two results of one test"),
        (
            lambda report: (*report.tests, *with_first(report, id="C0/Mine/test_all")[:1]),
            "it has results of 1 tests that the suite does not have, such as C0/Mine/test_all",
        ),
        (
            lambda report: with_first(report, ending=Ending.FAILED),
            "the verdicts on 1 tests do not follow from how they ended",
        ),
        (
            lambda report: with_first(report, ending=Ending.FAILED, verdict=Verdict.FAIL),
            "its levels do not follow from its tests",
        ),
    ],
)
def test_tests_that_contradict_the_report_are_told(
    report: Report, tests: Callable[[Report], tuple[TestResult, ...]], words: str
) -> None:
    changed = report.model_copy(update={"tests": tests(report)}).sealed()

    assert any(words in fault for fault in find_faults(changed))


def test_claims_that_contradict_the_tests_are_told(report: Report) -> None:
    proved = report.claims["fit"].model_copy(update={"finding": "proved", "tests": 99})
    changed = report.model_copy(update={"claims": {**report.claims, "fit": proved}}).sealed()

    assert "what it says of 1 claims does not follow from its tests, such as fit" in find_faults(changed)
