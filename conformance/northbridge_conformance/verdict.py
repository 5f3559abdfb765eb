"""Verdicts on tests, from their endings and the backend's claims."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from northbridge.capabilities import Claim


class Ending(str, Enum):
    """The ending of a test, independent of any claim."""

    WORKED = "worked"
    REFUSED = "refused"
    """An error says that the chip does not do this, or that Northbridge does not do it for the chip."""

    FAILED = "failed"
    HUNG = "hung"
    VOID = "void"
    """Two right ways to compute differ too much on this device for the test to show anything."""

    FORBIDDEN = "forbidden"
    """This machine does not allow the test to run."""


class Verdict(str, Enum):
    """The result of one test in a report."""

    PASS = "PASS"
    FAIL = "FAIL"
    UNDERCLAIM = "UNDERCLAIM"
    """The backend claims ``no``, and it works."""

    UNKNOWN = "UNKNOWN"
    """The backend claims neither; the evidence has the outcome."""

    VOID = "VOID"
    """Neither PASS nor FAIL: the device's own results vary by more than the bound."""

    TIMEOUT = "TIMEOUT"
    NOT_RUN = "NOT RUN"
    """This machine does not allow the test."""


def judge(ending: Ending, claims: Iterable[Claim]) -> Verdict:
    """Return the verdict on a test with this ending that shows ``claims``; empty for a requirement of every backend.

    Of several claims the weakest decides: a denied feature must be refused, an unknown one proves nothing.
    """
    if ending is Ending.HUNG:
        return Verdict.TIMEOUT
    if ending is Ending.FORBIDDEN:
        return Verdict.NOT_RUN
    answers = {claim.answer for claim in claims}
    if "no" in answers:
        by_ending = {Ending.WORKED: Verdict.UNDERCLAIM, Ending.REFUSED: Verdict.PASS, Ending.VOID: Verdict.VOID}
        return by_ending.get(ending, Verdict.FAIL)
    if "unknown" in answers:
        return Verdict.UNKNOWN
    if ending is Ending.VOID:
        return Verdict.VOID
    return Verdict.PASS if ending is Ending.WORKED else Verdict.FAIL
