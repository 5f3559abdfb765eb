from __future__ import annotations

import pytest

import northbridge
from northbridge import power_of_two_boundaries, quantile_boundaries

LENGTHS = [3, 5, 5, 8, 9, 20, 21, 40]


@pytest.mark.parametrize(
    ("count", "boundaries"), [(1, [40]), (2, [8, 40]), (4, [5, 8, 20, 40]), (99, sorted({*LENGTHS}))]
)
def test_quantiles_hold_equal_shares_of_the_lengths(count: int, boundaries: list[int]) -> None:
    assert quantile_boundaries(LENGTHS, count) == boundaries


def test_powers_of_two_end_at_the_first_that_holds_the_longest() -> None:
    assert power_of_two_boundaries(LENGTHS) == [8, 16, 32, 64]
    assert power_of_two_boundaries([64], smallest=16) == [16, 32, 64]
    assert power_of_two_boundaries([2]) == [8]


def test_without_lengths_there_are_no_boundaries() -> None:
    with pytest.raises(
        northbridge.ArgumentsError, match=r"no lengths were given.* Fix: pass the length of each sample"
    ):
        quantile_boundaries([], 2)


def test_a_count_below_1_is_an_error() -> None:
    with pytest.raises(northbridge.ArgumentsError, match=r"quantile_boundaries\(count=0\): expected 1 or more"):
        quantile_boundaries(LENGTHS, 0)
    with pytest.raises(northbridge.ArgumentsError, match=r"power_of_two_boundaries\(smallest=0\): not 1 or more"):
        power_of_two_boundaries(LENGTHS, 0)
