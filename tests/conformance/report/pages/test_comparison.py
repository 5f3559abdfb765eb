"""Reports side by side."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.report.pages.conftest import report_of, result

import northbridge
from northbridge_conformance.report.pages.comparison import compare
from northbridge_conformance.report.report import Report
from northbridge_conformance.verdict import Verdict


def test_tests_that_differ_are_told_from_those_that_do_not() -> None:
    one = report_of([result("Device", "views"), result("Device", "strides")])
    other = report_of([result("Device", "views", Verdict.FAIL), result("Device", "strides")])

    found = compare([one, other])

    assert [(test.title, test.words) for test in found.differing] == [("views", ("PASS", "FAIL"))]
    assert [test.title for test in found.same] == ["strides"]


def test_a_test_that_one_report_does_not_hold_differs() -> None:
    found = compare([report_of([result("Device", "views")]), report_of([])])

    assert [test.words for test in found.differing] == [("PASS", "absent")]


def test_of_those_that_differ_what_needs_somebody_comes_first() -> None:
    titles = {"unknown": Verdict.UNKNOWN, "underclaims": Verdict.UNDERCLAIM, "fails": Verdict.FAIL}
    one = report_of([result("Device", title) for title in titles])
    other = report_of([result("Device", title, verdict) for title, verdict in titles.items()])

    assert [test.title for test in compare([one, other]).differing] == ["fails", "underclaims", "unknown"]


def test_claims_that_differ_are_told(good: Report, mixed: Report) -> None:
    found = {claim.name: claim.findings for claim in compare([good, mixed]).claims}

    assert found["float16"] == ("unknown", "false")
    assert "float32" not in found


def test_reports_of_different_suites_are_compared_with_a_warning() -> None:
    found = compare([report_of([], sources="1" * 64), report_of([], name="other", sources="2" * 64)])

    assert "These reports are of different suites" in found.warning
    assert "acme: Northbridge 0.1.0, suite 111111111111" in found.warning
    assert compare([report_of([]), report_of([])]).warning == ""


@pytest.mark.parametrize(
    ("others", "labels"),
    [
        pytest.param({"name": "other"}, ("acme", "other"), id="their names"),
        pytest.param({"simulated": False}, ("acme (simulated)", "acme"), id="a real chip beside its simulation"),
        pytest.param({}, ("acme (1)", "acme (2)"), id="nothing but their places"),
    ],
)
def test_each_report_has_a_name_that_tells_it_from_the_others(others: dict[str, Any], labels: tuple[str, ...]) -> None:
    found = compare([report_of([]), report_of([], **others)])

    assert found.labels == labels


@pytest.mark.parametrize("number", [0, 1])
def test_a_comparison_of_fewer_than_two_is_refused(number: int) -> None:
    with pytest.raises(northbridge.ReportError, match=rf"needs two reports, found {number}"):
        compare([report_of([])] * number)
