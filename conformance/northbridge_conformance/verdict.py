"""Verdicts on tests, from their endings and the backend's claims, and measured figures, which may be void."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict

from northbridge.capabilities import Claim

MOST_EVIDENCE = 12_000
"""The number of characters of a test's evidence that are kept and read: the end, with the error."""


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


PROPERTY = "northbridge figure"
"""The name of the properties of a test that are its figures."""

_MOST = 1e300


def _limit(number: float) -> float:
    return _MOST if math.isnan(number) else min(number, _MOST)


Distance = Annotated[float, AfterValidator(_limit)]
"""A relative distance. JSON has neither infinity nor NaN: such a distance becomes a very large number."""


class VoidError(Exception):
    """Two right ways to compute differ by more than the bound on this device: a comparison would show nothing."""


class Figure(BaseModel):
    """One figure of a test."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    name: str
    found: Distance
    """The distance from the reference."""

    bound: Distance
    """The largest distance that passes."""

    gate: Distance
    """The distance between two right ways to compute on the same device."""

    @property
    def margin(self) -> float:
        """The number of times that the distance fits into the bound."""
        return min(self.bound / self.found, _MOST) if self.found else math.inf

    def __str__(self) -> str:
        return f"{self.name}: {self.found:.2g} off, bound {self.bound:.2g}, gate {self.gate:.2g}"


def check(record: Callable[[str, object], None], figures: Iterable[Figure]) -> None:
    """Record ``figures`` for the report by pytest's ``record_property``, and compare them with their bounds.

    Raises :class:`VoidError` if a gate exceeds its bound, and else :class:`AssertionError` for figures beyond theirs.
    """
    measured = list(figures)
    for each in measured:
        record(PROPERTY, each.model_dump())  # plain values: pytest-xdist sends them between processes
    void = [each for each in measured if each.gate > each.bound]
    if void:
        shown = "; ".join(map(str, void))
        raise VoidError(
            f"two right ways to compute differ by more than the bound on this device, so that nothing is shown: {shown}"
        )
    far = [each for each in measured if not each.found <= each.bound < _MOST]
    assert not far, "further from the reference than the bound: " + "; ".join(map(str, far))
