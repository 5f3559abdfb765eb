"""Sums, means and extremes over the ranks, without Lightning."""

from __future__ import annotations

from typing import Any

import pytest

import northbridge
from northbridge_conformance.rank_programs import collective_reductions
from northbridge_conformance.suite import shows
from northbridge_conformance.tests.collective.ranks import (
    Claims,
    Facts,
    Ranks,
    as_held,
    everybodys,
    may_reject,
    rejections,
)


def expected(word: str, dtype: str, devices: int) -> list[Any]:
    """Return the result of the reduction ``word`` over that number of ranks."""
    given = collective_reductions.GIVEN[:devices]
    return collective_reductions.reduced(word, given, whole=dtype not in collective_reductions.FLOATS)


class CollectiveReductions(Ranks):
    """Every reduction in every dtype that the library carries is exact, counts each rank once, and is in place.

    A dtype that the chip does not claim may be refused; if it is not, its results must be right.
    """

    advice = (
        "Look at the backend's Collective: `exact_dtypes`, `carried_dtypes` and `missing_reductions` say what its"
        " library reduces as it is. What it rounds or does not know has to be left out of them, and goes over the"
        " host."
    )
    step = "collective_reductions"

    @shows("sum_all_reduce")
    @pytest.mark.parametrize("dtype", collective_reductions.DTYPES)
    def test_a_sum(self, ranks: Facts, devices: int, claimed: Claims, dtype: str) -> None:
        if not (may_reject(claimed, dtype) and rejections(ranks, f"sum of {dtype}")):
            assert everybodys(ranks, f"sum of {dtype}") == [expected("sum", dtype, devices)] * devices

    @pytest.mark.parametrize("dtype", collective_reductions.DTYPES)
    @pytest.mark.parametrize("word", [word for word in collective_reductions.WORDS if word != "sum"])
    def test_a_reduction(
        self, backend: str, ranks: Facts, devices: int, claimed: Claims, word: str, dtype: str
    ) -> None:
        name, missing = f"{word} of {dtype}", northbridge.load(backend).collective.missing_reductions
        if may_reject(claimed, dtype) and rejections(ranks, name):
            return
        if word in missing:
            assert all(missing[word] in error for error in rejections(ranks, name) or [""])
        else:
            assert everybodys(ranks, name) == [expected(word, dtype, devices)] * devices

    @pytest.mark.parametrize("dtype", ["int64", "int32"])
    def test_a_mean_of_whole_numbers_is_cut_towards_zero(self, ranks: Facts, devices: int, dtype: str) -> None:
        means = collective_reductions.reduced("mean", collective_reductions.NEGATIVE[:devices], whole=True)

        assert everybodys(ranks, f"mean of negative {dtype}") == [means] * devices

    @shows("sum_all_reduce")
    @pytest.mark.parametrize("dtype", collective_reductions.DIGITS)
    def test_a_sum_that_uses_every_digit_of_its_dtype_loses_none(
        self, ranks: Facts, devices: int, claimed: Claims, dtype: str
    ) -> None:
        self.check_digits(ranks, devices, claimed, "sum", dtype)

    @pytest.mark.parametrize("dtype", collective_reductions.DIGITS)
    @pytest.mark.parametrize("word", ["min", "max"])
    def test_extremes_have_every_digit_of_their_dtype(
        self, backend: str, ranks: Facts, devices: int, claimed: Claims, word: str, dtype: str
    ) -> None:
        if word not in northbridge.load(backend).collective.missing_reductions:
            self.check_digits(ranks, devices, claimed, word, dtype)

    def check_digits(self, ranks: Facts, devices: int, claimed: Claims, word: str, dtype: str) -> None:
        """Compare with the exact result of the reduction ``word``."""
        name = f"{word} of digits of {dtype}"
        given = [collective_reductions.digits(dtype, rank) for rank in range(devices)]
        exact = as_held(collective_reductions.reduced(word, given, whole=True), dtype, claimed)

        if not (may_reject(claimed, dtype) and rejections(ranks, name)):
            assert everybodys(ranks, name) == [exact] * devices

    @pytest.mark.parametrize("dtype", collective_reductions.FLOATS)
    def test_an_average_of_the_librarys_own_is_one_where_it_has_one(
        self, backend: str, ranks: Facts, devices: int, claimed: Claims, dtype: str
    ) -> None:
        name, averages = f"average of {dtype}", northbridge.load(backend).collective.averages
        exact = expected("sum", dtype, devices)

        if not ((may_reject(claimed, dtype) or not averages) and rejections(ranks, name)):
            assert everybodys(ranks, name) == [exact] * devices

    @pytest.mark.parametrize(
        ("word", "exact"),
        [("min", [False, True, False]), ("max", [True, True, False]), ("sum", [True, True, False])],
    )
    def test_bools_are_reduced_to_all_and_to_any(
        self, ranks: Facts, devices: int, word: str, exact: list[bool]
    ) -> None:
        assert everybodys(ranks, f"{word} of bool") == [exact] * devices

    def test_the_mean_of_bools_is_refused(self, ranks: Facts) -> None:
        assert all("bool has no mean" in error for error in rejections(ranks, "mean of bool") or [""])

    @shows("sum_all_reduce")
    def test_a_sum_of_large_whole_numbers_is_exact(self, ranks: Facts, devices: int) -> None:
        total = devices * ranks[0]["large"] + sum(range(devices))

        assert everybodys(ranks, "sum of large numbers") == [[total]] * devices

    @shows("sum_all_reduce")
    def test_each_rank_is_counted_once(self, ranks: Facts, devices: int) -> None:
        # Each rank contributes another power of 4: a digit of the sum shows a rank that is counted twice or not at all.
        assert everybodys(ranks, "each counted") == [[sum(4**rank for rank in range(devices))] * 5] * devices

    @pytest.mark.parametrize("form", ["transposed", "a part"])
    def test_what_does_not_lie_in_one_piece_is_reduced_or_refused(self, ranks: Facts, devices: int, form: str) -> None:
        weight = sum(range(1, devices + 1))
        exact = {
            "transposed": [[0, 3 * weight], [weight, 4 * weight], [2 * weight, 5 * weight]],
            "a part": [devices, 1, devices, 1, devices, 1],
        }[form]

        assert rejections(ranks, form) or everybodys(ranks, form) == [exact] * devices

    @shows("sum_all_reduce")
    def test_a_sum_of_what_stands_behind_others_leaves_those_alone(self, ranks: Facts, devices: int) -> None:
        assert everybodys(ranks, "behind others") == [[1, 1, 1, devices, devices, devices]] * devices

    @pytest.mark.parametrize("dtype", collective_reductions.FLOATS)
    @pytest.mark.parametrize("word", ["sum", "mean"])
    def test_a_nan_on_one_rank_is_a_nan_on_every_rank(
        self, backend: str, ranks: Facts, devices: int, claimed: Claims, word: str, dtype: str
    ) -> None:
        name = f"{word} of no numbers, {dtype}"
        missing = northbridge.load(backend).collective.missing_reductions
        if not ((word in missing or may_reject(claimed, dtype)) and rejections(ranks, name)):
            assert everybodys(ranks, name) == [[True, True]] * devices

    def test_no_numbers_and_one_without_a_dimension(self, ranks: Facts, devices: int) -> None:
        assert everybodys(ranks, "nothing") == [[]] * devices
        assert everybodys(ranks, "a number") == [sum(range(1, devices + 1))] * devices

    @shows("sum_all_reduce")
    def test_a_sum_of_millions_of_numbers(self, ranks: Facts, devices: int) -> None:
        assert everybodys(ranks, "many") == [[0, 0]] * devices

    @pytest.mark.parametrize("dtype", collective_reductions.FLOATS)
    def test_a_sum_of_a_million_numbers_of(self, ranks: Facts, devices: int, claimed: Claims, dtype: str) -> None:
        if not (may_reject(claimed, dtype) and rejections(ranks, f"many of {dtype}")):
            assert everybodys(ranks, f"many of {dtype}") == [[0, 0]] * devices

    @pytest.mark.parametrize("root", [0, -1], ids=["the first", "the last"])
    def test_reduce_to_one_rank(self, ranks: Facts, devices: int, root: int) -> None:
        weight = sum(range(1, devices + 1))

        found = everybodys(ranks, f"to rank {root % devices}")

        assert found[root] == [[0, 2 * weight], [weight, 3 * weight]]
