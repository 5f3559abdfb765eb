"""The plugin of pytest that lets a backend's own tests judge as the command does; pytest loads it by itself.

A test of a class that was adopted passes where what the backend denies is refused, and fails where that works. What the
backend leaves unknown is skipped, with what came of it: it proves nothing either way.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a report say what the test says about the backend."""
    report = yield
    suite: Any = getattr(item, "cls", None)
    backend: str = getattr(suite, "adopted_for", "")
    if backend and report.when != "teardown" and not report.skipped:
        _judge(item, backend, call, report)
    return report


def _judge(item: pytest.Item, backend: str, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    from northbridge.conformance.runner.recorder import claims_of, classify
    from northbridge.conformance.verdict import Ending, Verdict, judge
    from northbridge.errors import NorthbridgeError

    names = claims_of(item)
    if not names or (call.excinfo is None and report.when != "call"):
        return
    try:
        shown = {name: claim for name, claim in _claims(backend).items() if name in names}
    except NorthbridgeError as error:  # of a backend that cannot say what it claims, a test that failed has failed
        if report.passed:
            report.outcome, report.longrepr = "failed", str(error)
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
    elif verdict is Verdict.PASS:  # what it needs is refused: there is nothing to call
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
