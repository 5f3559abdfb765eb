"""Distances between two tensors of which only the measures are known, and how much of them rounding explains."""

from __future__ import annotations

import math
from collections.abc import Iterable

from northbridge.snapshots.records import Value

_FLOORS = {"float64": 1e-6, "float32": 3e-5, "float16": 5e-3, "bfloat16": 3e-2}
_SMALLEST = {"float16": 6.1e-5}
"""The smallest number that a chip may not replace by zero, where it is large enough to matter."""

_LEAST = 1e-12


def difference(first: Value, second: Value) -> float:
    """Return the norm of the difference; infinite if the shapes or the numbers of finite values differ."""
    if first.shape != second.shape or first.lost != second.lost:
        return math.inf
    if not first.bits or not second.bits or (first.bits, first.dtype) == (second.bits, second.dtype):
        return 0.0
    bounds = [
        math.dist(first.sketch, second.sketch),
        math.dist(first.sample, second.sample) if first.size > 64 else 0.0,  # a place may be there twice
        abs(first.norm - second.norm),
    ]
    return max(*bounds, _LEAST * first.norm)


def distance(first: Value, second: Value, scale: float = 0.0) -> float:
    """Return the difference relative to the larger norm, or to ``scale`` if that is larger; at most 2, or infinite."""
    found = difference(first, second)
    against = max(first.norm, second.norm, scale)
    if found in (0.0, math.inf):
        return found
    return max(min(2.0, found / against), _LEAST) if against else 2.0


def floor(dtypes: Iterable[str]) -> float:
    """Return the distance that one operator's rounding explains, in the coarsest of ``dtypes``."""
    found = [0.3 if each.startswith("float8") else _FLOORS.get(each, 0.0) for each in dtypes]
    return max(found, default=0.0)


def rounding(first: Value, second: Value, *dtypes: str) -> float:
    """Return the distance of two results of one operator that rounding explains, in their dtypes or in ``dtypes``."""
    names = (first.dtype, second.dtype, *dtypes)
    norm = max(first.norm, second.norm)
    smallest = max(_SMALLEST.get(each, 0.0) for each in names)
    return floor(names) + (smallest * math.sqrt(first.size) / norm if smallest and norm else 0.0)


def explained(sources: float, floor: float, *, after_gap: bool = False) -> float:
    """Return the distance of a result that is explained where its sources have the distance ``sources``.

    An operator may amplify a small distance more than a large one, and in a coarse dtype more than in float32. After
    steps that were not recorded, any growth is the rounding's.
    """
    large = 8 if floor > 1e-3 else 4
    return floor + (32 * sources if after_gap else min(32 * sources, large * sources + 1e-3))
