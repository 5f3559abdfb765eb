"""The pytest plugin that makes a backend's own tests judge as the command does.

pytest does not load it by itself: ``addopts = ["-p", "northbridge_conformance.pytest_plugin"]``. It acts on tests of
the suite alone.

A test of an adopted class passes if the backend denies a feature and the feature is refused. It fails if that feature
works. If the backend leaves the claim unknown, the test is skipped with its outcome, because it proves nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

pytest_plugins: tuple[str, ...] = ("northbridge_conformance.runner.late_errors",)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the verdict on the backend into a test's report."""
    from northbridge_conformance.suite import suite_of

    report = yield
    suite = suite_of(item)
    backend = suite.adopted_for if suite else ""
    if backend and report.when != "teardown" and not report.skipped:
        _judge(item, backend, call, report)
    return report


def _judge(item: pytest.Item, backend: str, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    from northbridge_conformance.runner.recorder import claims_of, claims_of_operators, classify
    from northbridge_conformance.verdict import Ending, Verdict, judge

    names = (*claims_of(item), *claims_of_operators(item))
    if not names or (call.excinfo is None and report.when != "call"):
        return
    try:
        shown = {name: claim for name, claim in _claims(backend).items() if name in names}
    except Exception as error:  # noqa: BLE001  # a vendor's code may raise anything
        if report.passed:  # a failed test stays failed
            report.outcome, report.longrepr = "failed", f"{type(error).__name__}: {error}"
        return
    if all(claim.answer == "yes" for claim in shown.values()):
        return
    ending = Ending.WORKED if call.excinfo is None else classify(call.excinfo.value)
    verdict = judge(ending, shown.values())
    said = ", ".join(f"{name}: {claim.answer}" for name, claim in shown.items() if claim.answer != "yes")
    if verdict is Verdict.UNKNOWN:
        _skip(report, item, f"{backend} says {said}; it {ending.value}")
    elif verdict is Verdict.UNDERCLAIM:
        report.outcome = "failed"
        report.longrepr = f"UNDERCLAIM: {backend} says {said}, and it works; claim it, or refuse it"
    elif verdict is Verdict.PASS and report.when == "call":
        report.outcome = "passed"
    elif verdict is Verdict.PASS:  # its setup was refused, so the test is not called
        _skip(report, item, f"{backend} says {said}, and it is refused")


def _claims(backend: str) -> Any:
    import northbridge
    from northbridge.discovery.current import loaded

    first = loaded()
    asked = northbridge.get(backend)
    return (asked.present_capabilities() if first is asked else asked.capabilities).claims()


def _skip(report: pytest.TestReport, item: pytest.Item, reason: str) -> None:
    report.outcome = "skipped"
    report.longrepr = (str(item.path), item.location[1] or 0, f"Skipped: {reason}")
