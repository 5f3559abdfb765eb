"""A report as JUnit XML, which CI systems read."""

from __future__ import annotations

from itertools import groupby
from xml.etree import ElementTree as ET

from northbridge.untrusted.text import clean
from northbridge_conformance.report.pages.overview import FAILURES, missing_tests, name_level
from northbridge_conformance.report.report import Report, TestResult
from northbridge_conformance.verdict import Verdict

_SKIPPED = (Verdict.UNKNOWN, Verdict.VOID, Verdict.NOT_RUN)


def render_junit(report: Report) -> str:
    """Return the report as JUnit XML: a suite for each class of a level.

    FAIL, TIMEOUT and UNDERCLAIM are failures; UNKNOWN, VOID and NOT RUN are skipped, with the reason. An expected test
    without a result in the report is an error.
    """
    root = ET.Element("testsuites", name=f"northbridge conformance {clean(report.backend.name)}")
    ordered = sorted(report.tests, key=lambda test: (test.level, test.class_name))
    for (level, class_name), tests in groupby(ordered, key=lambda test: (test.level, test.class_name)):
        _add_suite(root, report, f"{level}.{class_name}", level, list(tests))
    missing = missing_tests(report)
    if missing:
        suite = ET.SubElement(root, "testsuite", name="missing", time="0.000")
        for each in missing:
            case = ET.SubElement(suite, "testcase", classname="missing", name=clean(each), time="0.000")
            ET.SubElement(case, "error", message="the report has no result of this test")
        _count(suite)
    for count in ("tests", "failures", "errors", "skipped"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    root.set("time", f"{report.seconds:.3f}")
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _add_suite(root: ET.Element, report: Report, name: str, level: str, tests: list[TestResult]) -> None:
    time = sum(test.seconds for test in tests)
    suite = ET.SubElement(root, "testsuite", name=clean(name), time=f"{time:.3f}", timestamp=clean(report.began[:19]))
    properties = ET.SubElement(suite, "properties")
    for key, value in {
        "level": level,
        "granted": name_level(report),
        "backend": report.backend.name,
        "distribution": f"{report.backend.distribution} {report.backend.version}",
        "simulated": str(report.backend.simulated).lower(),
        "topic": tests[0].topic,
    }.items():
        ET.SubElement(properties, "property", name=key, value=clean(value))
    for test in tests:
        _add_case(suite, name, test)
    _count(suite)


def _add_case(suite: ET.Element, name: str, test: TestResult) -> None:
    case = ET.SubElement(suite, "testcase", classname=clean(name), name=clean(test.id.split("/", 2)[-1]))
    case.set("time", f"{test.seconds:.3f}")
    verdict, evidence = test.verdict, clean(test.evidence).strip()
    if verdict in FAILURES:
        found = ET.SubElement(case, "failure", type=verdict.value, message=f"{verdict.value}: {clean(test.title)}")
        advice = f"What to do: {clean(test.advice)}" if test.advice else ""
        found.text = "\n\n".join(part for part in (evidence, advice) if part)
    elif verdict in _SKIPPED:
        reason = f"{verdict.value}: {_tell_reason(test, evidence)}"
        ET.SubElement(case, "skipped", type=verdict.value, message=reason).text = evidence
    elif evidence:
        ET.SubElement(case, "system-out").text = evidence


def _tell_reason(test: TestResult, evidence: str) -> str:
    if test.verdict is Verdict.UNKNOWN:
        return f"the backend does not say whether it can do this: {clean(', '.join(test.claims))}"
    return evidence.partition("\n")[0] or "a fact of this machine forbids it"


def _count(suite: ET.Element) -> None:
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for count, tag in {"failures": "failure", "errors": "error", "skipped": "skipped"}.items():
        suite.set(count, str(sum(case.find(tag) is not None for case in cases)))
