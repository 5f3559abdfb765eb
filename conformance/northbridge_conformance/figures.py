"""Measured figures, each with a bound that is derived, and a gate that says if the device allows the measurement."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict

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
