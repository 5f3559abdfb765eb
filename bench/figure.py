"""One measured figure, and whether it is within its bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any, Literal

from bench.bounds import Bound

Verdict = Literal["within", "OVER", "no bound"]


@dataclass(frozen=True)
class Measurement:
    """A measurement: one value a round, and the medians of its parts, for people to read."""

    values: Sequence[float]
    parts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """The median of a measurement, its spread, and the verdict."""

    bound: Bound
    measurement: Measurement

    def __post_init__(self) -> None:
        if not self.measurement.values:
            raise ValueError(f"{self.bound.name}: nothing was measured")

    @property
    def value(self) -> float:
        """The median over the rounds."""
        return median(self.measurement.values)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The first and the third quartile; both are the value itself where there was one round."""
        values = self.measurement.values
        if len(values) == 1:
            return values[0], values[0]
        first, _, third = quantiles(values, n=4, method="inclusive")
        return first, third

    @property
    def verdict(self) -> Verdict:
        """The verdict on the unrounded median against the bound."""
        if self.bound.limit is None:
            return "no bound"
        return "within" if self.value <= self.bound.limit else "OVER"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        first, third = self.quartiles
        return {
            "what": self.bound.what,
            "unit": self.bound.unit,
            "value": self.value,
            "first_quartile": first,
            "third_quartile": third,
            "values": list(self.measurement.values),
            "bound": self.bound.limit,
            "verdict": self.verdict,
            "parts": dict(self.measurement.parts),
        }
