"""Judgement of the ranks' findings, and the bounds of the first step."""

from __future__ import annotations

import math

import pytest

from northbridge.errors import CollectiveError, UnsupportedError
from northbridge_conformance.tests.collective import first_step
from northbridge_conformance.tests.collective.first_step import BITS, bound_of, bounds_on_host, distance
from northbridge_conformance.tests.collective.ranks import attempt, error_of, rejections, results_of


def lack() -> None:
    raise CollectiveError("accl has no such collective")


def test_what_every_rank_lacks_is_unsupported() -> None:
    """A result is not an error, and what one rank lacks is a failure."""
    lacking, one = [{"gathered": attempt(lack)}] * 2, [{"gathered": [1]}, {"gathered": attempt(lack)}]

    assert attempt(lambda: [1, 2]) == [1, 2]
    assert [error_of(found) for found in ([1.0], {"sum": 1.0}, 3)] == ["", "", ""]
    assert rejections(lacking, "gathered") == ["CollectiveError: accl has no such collective"] * 2
    with pytest.raises(UnsupportedError, match="gathered: CollectiveError: accl has no such collective"):
        results_of(lacking, "gathered")
    assert rejections(one, "gathered") == []
    with pytest.raises(AssertionError, match="gathered fails on some ranks"):
        results_of(one, "gathered")
    assert results_of([{"gathered": 1}, {"gathered": 2}], "gathered") == [1, 2]  # in their order


@pytest.mark.parametrize("ranks", [[0], [0, 1]])
def test_failed_assertion_is_never_a_refusal(ranks: list[int]) -> None:
    def fail() -> None:
        raise AssertionError("it is on the CPU")

    found = [{"gathered": attempt(fail) if rank in ranks else [1]} for rank in range(2)]

    assert rejections(found, "gathered") == []
    with pytest.raises(AssertionError, match=r"gathered failed:\nrank 0: Traceback(?s:.*)it is on the CPU"):
        results_of(found, "gathered")


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


def test_distance_is_relative_and_a_bound_a_few_roundings() -> None:
    right = {"gradients": {"weight": [0.5, -1.0]}, "sizes": {"weight": 2.0}}

    assert bound_of(right, "weight", 3) == 4 * 4 * 2.0**-24 * 2
    assert distance([1.0, 2.5], [1.0, 2.0]) == 0.25
    for place in range(3):
        found = [1.0, 2.0, 3.0]
        found[place] = math.nan
        assert distance(found, [1.0, 2.0, 3.0]) == math.inf
