"""JUnit XML, as CI systems read it."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from northbridge_conformance.report.pages.junit import render_junit
from northbridge_conformance.report.report import Report


def case(root: ET.Element, name: str) -> ET.Element:
    (found,) = [each for each in root.iter("testcase") if each.get("name") == name]
    return found


@pytest.fixture
def of_mixed(mixed: Report) -> ET.Element:
    return ET.fromstring(render_junit(mixed))


def test_wrong_is_a_failure_and_unproven_is_skipped(of_mixed: ET.Element, mixed: Report) -> None:
    counts = {name: int(of_mixed.get(name, "")) for name in ("tests", "failures", "errors", "skipped")}

    assert counts == {"tests": len(mixed.tests), "failures": 6, "errors": 0, "skipped": 2}
    assert [each.get("type") for each in of_mixed.iter("failure")].count("UNDERCLAIM") == 1
    assert {each.get("type") for each in of_mixed.iter("skipped")} == {"UNKNOWN", "NOT RUN"}


def test_the_counts_of_a_suite_are_those_of_its_tests(of_mixed: ET.Element) -> None:
    for suite in of_mixed.iter("testsuite"):
        assert int(suite.get("tests", "")) == len(suite.findall("testcase"))
        assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure"))
        assert int(suite.get("skipped", "")) == len(suite.findall("testcase/skipped"))


def test_a_failure_has_its_evidence_and_what_to_do(of_mixed: ET.Element) -> None:
    failure = case(of_mixed, "test_fp16_scales_its_gradients").find("failure")

    assert failure is not None
    assert failure.get("message") == "FAIL: fp16 scales its gradients"
    assert failure.text == (
        "E  assert 1.0 == 65536.0\n\n"
        "What to do: See that the gradient scaler of the chip is the one that Lightning is given."
    )


def test_a_hang_is_a_failure_with_the_stack_of_each_rank(of_mixed: ET.Element) -> None:
    failure = case(of_mixed, "test_a_barrier_waits").find("failure")

    assert failure is not None
    assert failure.get("type") == "TIMEOUT"
    assert "rank 1:\n  File collective.py, line 40, in barrier" in (failure.text or "")


def test_what_is_skipped_says_why(of_mixed: ET.Element) -> None:
    not_run = case(of_mixed, "test_all_gather_of_eight_ranks").find("skipped")
    unknown = case(of_mixed, "test_float64_adds").find("skipped")

    assert not_run is not None
    assert unknown is not None
    assert not_run.get("message") == "NOT RUN: it needs 8 devices of acme, and this machine has 4"
    assert unknown.get("message") == "UNKNOWN: the backend does not say whether it can do this: float64"


def test_a_suite_has_its_level_its_backend_and_its_time(of_mixed: ET.Element) -> None:
    (suite,) = [each for each in of_mixed.iter("testsuite") if each.get("name") == "C0.Plugin"]
    properties = {each.get("name"): each.get("value") for each in suite.iter("property")}

    assert (properties["level"], properties["backend"], properties["simulated"]) == ("C0", "acme", "false")
    assert properties["granted"] == "C0"
    assert suite.get("time") == "3.000"
    assert suite.get("timestamp") == "2026-11-24T20:40:45"


def test_planned_test_that_is_missing_is_an_error(good: Report) -> None:
    cut = good.model_copy(update={"tests": good.tests[1:]})

    root = ET.fromstring(render_junit(cut))

    assert root.get("errors") == "1"
    assert case(root, good.tests[0].id).find("error") is not None


def test_hostile_text_is_text(hostile: Report) -> None:
    root = ET.fromstring(render_junit(hostile))

    assert int(root.get("tests", "")) == len(hostile.tests)
    failure = next(root.iter("failure"))
    assert "</script><script>document.title='owned'</script>" in (failure.text or "")
    assert "\x1b" not in (failure.text or "")
