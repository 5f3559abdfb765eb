"""One measured figure, and whether it meets its goal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median, quantiles
from typing import Any, Literal

from bench.row import Compared, Row

Verdict = Literal["met", "MISSED", "missed, known", "no goal"]


@dataclass(frozen=True)
class Measurement:
    """One value a round, and what each side answered in it; a row that compares nothing has no sides."""

    values: Sequence[float] = ()
    sides: Sequence[Sequence[float]] = ()

    def plus(self, more: Measurement) -> Measurement:
        """Return both, as of one row."""
        sides = (
            [[*had, *added] for had, added in zip(self.sides, more.sides, strict=True)] if self.sides else more.sides
        )
        return Measurement([*self.values, *more.values], sides)


@dataclass(frozen=True)
class Figure:
    """The median of a measurement, how well it is known, and the verdict."""

    row: Row
    measurement: Measurement

    def __post_init__(self) -> None:
        if not self.measurement.values:
            raise ValueError(f"{self.row.name}: nothing was measured")

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

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the median, by the bootstrap; of few rounds it is all that they span."""
        values = self.measurement.values
        if len(set(values)) == 1:
            return values[0], values[0]
        import numpy
        from scipy.stats import bootstrap

        found = bootstrap([values], numpy.median, method="percentile", rng=numpy.random.default_rng(0))
        return float(found.confidence_interval.low), float(found.confidence_interval.high)

    @property
    def verdict(self) -> Verdict:
        """The goal is met where the interval begins at or below it: a median may be above it by chance."""
        if self.row.goal is None:
            return "no goal"
        if self.interval[0] <= self.row.goal:
            return "met"
        return "missed, known" if self.row.missed else "MISSED"

    @property
    def parts(self) -> dict[str, str]:
        """The median of each side, for people to read."""
        how = self.row.how
        if not isinstance(how, Compared):
            return {}
        scale, unit = how.shown
        sides = zip(how.pair.names, self.measurement.sides, strict=True)
        return {name: f"{median(side) * scale:.4g} {unit}" for name, side in sides}

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        first, third = self.quartiles
        lower, upper = self.interval
        return {
            "what": self.row.what,
            "unit": self.row.unit,
            "value": self.value,
            "lower": lower,
            "upper": upper,
            "first_quartile": first,
            "third_quartile": third,
            "values": list(self.measurement.values),
            "sides": [list(side) for side in self.measurement.sides],
            "goal": self.row.goal,
            "verdict": self.verdict,
            "missed": self.row.missed,
            "parts": self.parts,
        }
