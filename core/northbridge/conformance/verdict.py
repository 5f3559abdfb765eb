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
    """What a report says of a test."""

    PASS = "PASS"
    FAIL = "FAIL"
    UNDERCLAIM = "UNDERCLAIM"
    """The backend says that it cannot do this, and it can."""

    UNKNOWN = "UNKNOWN"
    """The backend does not say whether it can; what came of it is in the evidence."""

    TIMEOUT = "TIMEOUT"
    NOT_RUN = "NOT RUN"
    """A fact of this machine forbids it."""


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
