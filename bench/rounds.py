"""The order in which two things are measured: A B, B A, A B, …, after a warm-up.

A machine that grows slower or faster meanwhile does so to both, and neither is always the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from bench.figure import Measurement


def interleave(first: Callable[[], float], second: Callable[[], float], rounds: int) -> list[tuple[float, float]]:
    """Return what ``first`` and ``second`` answered in each round; one more round before them is not counted."""
    first()
    second()
    pairs = []
    for number in range(rounds):
        if number % 2:
            after, before = second(), first()
            pairs.append((before, after))
        else:
            pairs.append((first(), second()))
    return pairs


def ratio(pairs: Sequence[tuple[float, float]], names: tuple[str, str], unit: str, scale: float = 1.0) -> Measurement:
    """Return the ratio of each round, with the median of each side, ``scale`` times the answers, as its parts."""
    return Measurement([first / second for first, second in pairs], _medians(pairs, names, unit, scale))


def difference(pairs: Sequence[tuple[float, float]], names: tuple[str, str], unit: str) -> Measurement:
    """Return what ``first`` was above ``second`` in each round, with the median of each side as its parts."""
    return Measurement([first - second for first, second in pairs], _medians(pairs, names, unit, 1.0))


def _medians(pairs: Sequence[tuple[float, float]], names: tuple[str, str], unit: str, scale: float) -> dict[str, str]:
    sides = zip(*pairs, strict=True)
    return {name: f"{median(side) * scale:.4g} {unit}" for name, side in zip(names, sides, strict=True)}
