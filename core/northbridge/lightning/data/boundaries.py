"""Boundaries of buckets: the lengths that samples are padded to."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from northbridge.errors import ArgumentsError


def quantile_boundaries(lengths: Iterable[int], count: int) -> list[int]:
    """Return at most ``count`` boundaries with about as many of the ``lengths`` below each; the last is the longest.

    Raises :class:`ArgumentsError` if there are no lengths, or ``count`` is not 1 or more.
    """
    ordered = _ordered(lengths)
    if count < 1:
        raise ArgumentsError(f"quantile_boundaries(count={count}): expected 1 or more")
    return sorted({ordered[-(-len(ordered) * number // count) - 1] for number in range(1, count + 1)})


def power_of_two_boundaries(lengths: Iterable[int], smallest: int = 8) -> list[int]:
    """Return ``smallest``, and its doubles until one holds the longest of the ``lengths``.

    Raises :class:`ArgumentsError` if there are no lengths, or ``smallest`` is not 1 or more.
    """
    longest = _ordered(lengths)[-1]
    if smallest < 1:
        raise ArgumentsError(f"power_of_two_boundaries(smallest={smallest}): not 1 or more")
    boundaries = [smallest]
    while boundaries[-1] < longest:
        boundaries.append(2 * boundaries[-1])
    return boundaries


def check_boundaries(boundaries: Iterable[int]) -> list[int]:
    """Return the boundaries as a list. Raises :class:`ArgumentsError` unless they ascend from 1 or more."""
    checked = list(boundaries)
    if not checked or checked[0] < 1 or any(low >= high for low, high in itertools.pairwise(checked)):
        raise ArgumentsError(f"boundaries={checked}: not ascending lengths from 1 on")
    return checked


def boundary_of(length: int, boundaries: Sequence[int]) -> int:
    """Return the smallest boundary that holds ``length``. Raises :class:`ArgumentsError` if none does."""
    number = bisect_left(boundaries, length)
    if number == len(boundaries):
        raise ArgumentsError(
            f"a sample of length {length} is longer than the last boundary, {boundaries[-1]}. Fix: add a boundary, or"
            " cut the sample"
        )
    return boundaries[number]


def _ordered(lengths: Iterable[int]) -> list[int]:
    ordered = sorted(lengths)
    if not ordered:
        raise ArgumentsError("no lengths were given, so there are no boundaries. Fix: pass the length of each sample")
    return ordered
