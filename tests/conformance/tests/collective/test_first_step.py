"""The bounds of the first step: what passes them, and what does not."""

from __future__ import annotations

import math

import pytest

from northbridge_conformance.tests.collective import first_step
from northbridge_conformance.tests.collective.first_step import BITS, bound_of, bounds_on_host, distance

RANKS = 4


def test_host_gives_the_same_step_each_time() -> None:
    one, other = (first_step.compute_on_host(RANKS) for _ in range(2))

    assert one == other
    assert first_step.FROZEN not in one["gradients"]
    assert one["frozen"]
    assert one["norm"] > 0.25  # it is clipped


@pytest.mark.parametrize(("bits", "most"), [("float32", 1e-5), ("ten bits", 0.05), ("bfloat16", 0.2)])
def test_bound_lets_no_rank_be_lost(bits: str, most: float) -> None:
    exact, without_one = first_step.compute_on_host(RANKS), first_step.compute_on_host(RANKS - 1)

    for name, bound in bounds_on_host(RANKS, BITS[bits]).items():
        assert bound < most
        assert distance(without_one["gradients"][name], exact["gradients"][name]) > 2 * bound


def test_bound_of_an_average_is_a_few_roundings() -> None:
    right = {"gradients": {"weight": [0.5, -1.0]}, "sizes": {"weight": 2.0}}

    assert bound_of(right, "weight", 3) == 4 * 4 * 2.0**-24 * 2


def test_distance_is_relative_to_the_largest() -> None:
    assert distance([1.0, 2.5], [1.0, 2.0]) == 0.25


@pytest.mark.parametrize("place", range(3))
def test_distance_of_nan_is_infinite(place: int) -> None:
    found = [1.0, 2.0, 3.0]
    found[place] = math.nan

    assert distance(found, [1.0, 2.0, 3.0]) == math.inf
