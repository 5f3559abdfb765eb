"""What a test says about a backend, in the light of what the backend claims."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from northbridge.capabilities import Claim


class Ending(str, Enum):
    """How a test ended, whatever was claimed."""

    WORKED = "worked"
    REFUSED = "refused"
    """By an error that says that the chip, or Northbridge for it, does not do this."""

    FAILED = "failed"
    HUNG = "hung"
    FORBIDDEN = "forbidden"
    """This machine does not let it run."""


class Verdict(str, Enum):
    """The result of one test in a report."""

    PASS = "PASS"
    FAIL = "FAIL"
    UNDERCLAIM = "UNDERCLAIM"
    """The backend claims ``no``, and it works."""

    UNKNOWN = "UNKNOWN"
    """The backend claims neither; the evidence says what happened."""

    TIMEOUT = "TIMEOUT"
    NOT_RUN = "NOT RUN"
    """This machine does not allow the test."""


def judge(ending: Ending, claims: Iterable[Claim]) -> Verdict:
    """Return the verdict on a test that ended so and shows ``claims``; none: what every backend has to do.

    Of several claims the weakest decides: what is denied is expected to be refused, what is unknown proves nothing.
    """
    if ending is Ending.HUNG:
        return Verdict.TIMEOUT
    if ending is Ending.FORBIDDEN:
        return Verdict.NOT_RUN
    answers = {claim.answer for claim in claims}
    if "no" in answers:
        return {Ending.WORKED: Verdict.UNDERCLAIM, Ending.REFUSED: Verdict.PASS}.get(ending, Verdict.FAIL)
    if "unknown" in answers:
        return Verdict.UNKNOWN
    return Verdict.PASS if ending is Ending.WORKED else Verdict.FAIL
