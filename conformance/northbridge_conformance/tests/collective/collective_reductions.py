"""Sums, means and extremes over the ranks, without Lightning."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from math import isinf, isnan, prod, trunc
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import northbridge
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.suite import shows
from northbridge_conformance.tests.collective.ranks import (
    Claims,
    Facts,
    Rank,
    Ranks,
    as_held,
    attempt,
    may_reject,
    meet,
    rejections,
    results_of,
)

FLOATS = ("float32", "float64", "float16", "bfloat16")
DTYPES = (*FLOATS, "int64", "int32", "uint8")
WORDS = ("sum", "mean", "min", "max", "product")
"""The reductions of :meth:`northbridge.Collective.all_reduce`."""

GIVEN = ([1, 2, 3], [5, 1, 3], [2, 4, 3], [3, 3, 3])
"""The numbers that each rank contributes to a reduction."""

NEGATIVE = ([-3, 4, -1], [-4, 3, 2], [0, -1, -6], [2, -4, 0])
"""The numbers that each rank contributes to a mean that is not an integer."""

BITS = {"float32": 24, "float64": 53, "float16": 11, "bfloat16": 8}
"""The number of significant binary digits of each dtype."""

DIGITS = {**BITS, "int32": 31, "uint8": 8}
"""The number of digits that is tested for each dtype, without the sign."""

EXACT = 200
"""The number of values in a sum that uses all digits of the dtype."""

MANY = 2**20 + 3
"""The number of elements of a large tensor."""

MOST = 2**23 + 3
"""A number of elements that exceeds one DDP bucket, the largest message of most trainings."""


def reduce_tensors(scenario: Scenario, folder: Path) -> None:
    """Reduce whole and partial, small and large tensors in each dtype and operation; each rank reports."""
    rank = meet(scenario)
    found: dict[str, Any] = {"device": str(rank.device), "large": large_number(scenario.accelerator)}
    for dtype in DTYPES:
        for word in WORDS:
            found[f"{word} of {dtype}"] = attempt(partial(_reduce, rank, GIVEN[rank.number], dtype, word))
    for word in ("sum", "min", "max", "mean"):
        flags = [rank.number == 0, True, False]  # one, all and none of the ranks
        found[f"{word} of bool"] = attempt(partial(_reduce, rank, flags, "bool", word))
    for dtype in ("int64", "int32"):
        found[f"mean of negative {dtype}"] = attempt(partial(_reduce, rank, NEGATIVE[rank.number], dtype, "mean"))
    for dtype in DIGITS:
        for word in ("sum", "min", "max"):
            name = f"{word} of digits of {dtype}"
            found[name] = attempt(partial(_reduce, rank, digits(dtype, rank.number), dtype, word))
    for dtype in FLOATS:
        found[f"average of {dtype}"] = attempt(partial(_average, rank, dtype))
    found["sum of large numbers"] = attempt(partial(_reduce, rank, [found["large"] + rank.number], "int64", "sum"))
    found["each counted"] = attempt(partial(_reduce, rank, [4**rank.number] * 5, "float32", "sum"))
    found["transposed"] = attempt(partial(_reduce_transposed, rank))
    found["a part"] = attempt(partial(_reduce_part, rank, slice(None, None, 2)))
    found["behind others"] = attempt(partial(_reduce_part, rank, slice(3, None)))
    for dtype in FLOATS:
        for word in ("sum", "mean"):
            found[f"{word} of no numbers, {dtype}"] = attempt(partial(_reduce_no_numbers, rank, dtype, word))
    found["nothing"] = attempt(partial(_reduce, rank, [], "float32", "sum"))
    found["a number"] = attempt(partial(_reduce, rank, rank.number + 1, "float32", "sum"))
    found["many"] = attempt(partial(_reduce_many, rank))
    for dtype in FLOATS:
        found[f"many of {dtype}"] = attempt(partial(_reduce_many, rank, MANY, 16, dtype))
    for root in range(rank.ranks):
        found[f"to rank {root}"] = attempt(partial(_reduce_to, rank, root))
    write(folder, "reduce_tensors", rank.number, found)


def large_number(accelerator: str) -> int:
    """Return an integer that float32 cannot represent exactly, nor int32 if the chip has int64."""
    return 2**28 if northbridge.load(accelerator).present_capabilities().int64.denied else 2**40


def reduced(word: str, given: Sequence[Sequence[float]], *, whole: bool) -> list[Any]:
    """Return the result of reducing ``given``, one row for each rank; ``whole`` truncates a mean to integers."""
    columns = list(zip(*given, strict=True))
    if word == "mean":
        means = [sum(column) / len(given) for column in columns]
        return [trunc(mean) for mean in means] if whole else means
    reduce: Any = {"sum": sum, "min": min, "max": max, "product": prod}[word]
    return [reduce(column) for column in columns]


def digits(dtype: str, rank: int) -> list[int]:
    """Return a rank's part of a sum that is exact in ``dtype``, in whatever order four ranks are added up.

    In the first half all ranks contribute; in the second, rank 0 or rank 1 alone adds a number that uses every digit.
    """
    chance = random.Random(rank)
    whole = 2 ** DIGITS[dtype]
    shared = [chance.randrange(whole // 4) for _ in range(EXACT // 2)]
    owned = [chance.randrange(whole // 2, whole) if number % 2 == rank else 0 for number in range(EXACT // 2)]
    return [*shared, *owned]


def many(rank: Rank, size: int = MANY) -> torch.Tensor:
    """Return a float32 tensor of ``size`` small integers, on the rank's device."""
    return torch.arange(size, device=rank.device).remainder(1024).float()


def extremes(distance: torch.Tensor) -> list[float]:
    """Return the smallest and the largest number."""
    return [distance.min().item(), distance.max().item()]


def _reduce(rank: Rank, given: Any, dtype: str, word: str) -> Any:
    tensor = rank.tensor(given, getattr(torch, dtype))
    returned = rank.collective.all_reduce(tensor, word)
    assert returned is tensor, "all_reduce() returns what it was given"
    return tensor.tolist()


def _average(rank: Rank, dtype: str) -> Any:
    """Let the library itself average, as FSDP2 does."""
    tensor = rank.tensor([each * rank.ranks for each in GIVEN[rank.number]], getattr(torch, dtype))
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    return tensor.tolist()


def _reduce_transposed(rank: Rank) -> Any:
    """Reduce a matrix that is not contiguous."""
    matrix = (torch.arange(6.0, device=rank.device).view(2, 3) * (rank.number + 1)).t()
    rank.collective.all_reduce(matrix)
    return matrix.tolist()


def _reduce_part(rank: Rank, part: slice) -> Any:
    """Reduce some elements of a tensor; return all of them."""
    whole = torch.ones(6, device=rank.device)
    rank.collective.all_reduce(whole[part])
    return whole.tolist()


def _reduce_no_numbers(rank: Rank, dtype: str, word: str) -> list[bool]:
    """Return two flags: NaN from the first rank survived, and infinity from the last rank survived."""
    own = [float("nan") if rank.number == 0 else 1.0, float("inf") if rank.is_last else 1.0]
    nan, infinite = _reduce(rank, own, dtype, word)
    return [isnan(nan), isinf(infinite)]


def _reduce_many(rank: Rank, size: int = MOST, below: int = 1024, dtype: str = "float32") -> list[float]:
    """Return the smallest and the largest error of a sum over the ranks of ``size`` integers less than ``below``."""
    numbers = many(rank, size).remainder(below).to(getattr(torch, dtype))
    ramp = numbers * (rank.number + 1)
    rank.collective.all_reduce(ramp)
    return extremes(ramp - numbers * sum(range(1, rank.ranks + 1)))


def _reduce_to(rank: Rank, root: int) -> Any:
    transposed = (torch.arange(4.0, device=rank.device).view(2, 2) * (rank.number + 1)).t().contiguous()
    dist.reduce(transposed, root)
    return transposed.tolist()


def expected(word: str, dtype: str, devices: int) -> list[Any]:
    """Return the result of the reduction ``word`` over that number of ranks."""
    given = GIVEN[:devices]
    return reduced(word, given, whole=dtype not in FLOATS)


class CollectiveReductions(Ranks):
    """Every reduction in every dtype that the library carries is exact, counts each rank once, and is in place.

    A dtype that the chip does not claim may be refused; if it is not, its results must be right.
    """

    advice = (
        "Look at the backend's Collective: `exact_dtypes`, `carried_dtypes` and `missing_reductions` say what its"
        " library reduces as it is. What it rounds or does not know has to be left out of them, and goes over the"
        " host."
    )
    step = "reduce_tensors"

    @shows("sum_all_reduce")
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_all_reduce_sum_is_exact(self, ranks: Facts, devices: int, claimed: Claims, dtype: str) -> None:
        if not (may_reject(claimed, dtype) and rejections(ranks, f"sum of {dtype}")):
            assert results_of(ranks, f"sum of {dtype}") == [expected("sum", dtype, devices)] * devices

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("word", [word for word in WORDS if word != "sum"])
    def test_all_reduce_is_exact_or_raises(
        self, backend: str, ranks: Facts, devices: int, claimed: Claims, word: str, dtype: str
    ) -> None:
        name, missing = f"{word} of {dtype}", northbridge.load(backend).require_collective().missing_reductions
        if may_reject(claimed, dtype) and rejections(ranks, name):
            return
        if word in missing:
            assert all(missing[word] in error for error in rejections(ranks, name) or [""])
        else:
            assert results_of(ranks, name) == [expected(word, dtype, devices)] * devices

    @pytest.mark.parametrize("dtype", ["int64", "int32"])
    def test_integer_mean_truncates_towards_zero(self, ranks: Facts, devices: int, dtype: str) -> None:
        means = reduced("mean", NEGATIVE[:devices], whole=True)

        assert results_of(ranks, f"mean of negative {dtype}") == [means] * devices

    @shows("sum_all_reduce")
    @pytest.mark.parametrize("dtype", DIGITS)
    def test_sum_keeps_the_full_precision_of_the_dtype(
        self, ranks: Facts, devices: int, claimed: Claims, dtype: str
    ) -> None:
        self.check_digits(ranks, devices, claimed, "sum", dtype)

    @pytest.mark.parametrize("dtype", DIGITS)
    @pytest.mark.parametrize("word", ["min", "max"])
    def test_min_and_max_keep_the_full_precision_of_the_dtype(
        self, backend: str, ranks: Facts, devices: int, claimed: Claims, word: str, dtype: str
    ) -> None:
        if word not in northbridge.load(backend).require_collective().missing_reductions:
            self.check_digits(ranks, devices, claimed, word, dtype)

    def check_digits(self, ranks: Facts, devices: int, claimed: Claims, word: str, dtype: str) -> None:
        """Compare with the exact result of the reduction ``word``."""
        name = f"{word} of digits of {dtype}"
        given = [digits(dtype, rank) for rank in range(devices)]
        exact = as_held(reduced(word, given, whole=True), dtype, claimed)

        if not (may_reject(claimed, dtype) and rejections(ranks, name)):
            assert results_of(ranks, name) == [exact] * devices

    @pytest.mark.parametrize("dtype", FLOATS)
    def test_average_by_the_library_is_exact_or_raises(
        self, backend: str, ranks: Facts, devices: int, claimed: Claims, dtype: str
    ) -> None:
        name, averages = f"average of {dtype}", northbridge.load(backend).require_collective().averages
        exact = expected("sum", dtype, devices)

        if not ((may_reject(claimed, dtype) or not averages) and rejections(ranks, name)):
            assert results_of(ranks, name) == [exact] * devices

    @pytest.mark.parametrize(
        ("word", "exact"),
        [("min", [False, True, False]), ("max", [True, True, False]), ("sum", [True, True, False])],
    )
    def test_bool_reductions_are_all_and_any(self, ranks: Facts, devices: int, word: str, exact: list[bool]) -> None:
        assert results_of(ranks, f"{word} of bool") == [exact] * devices

    def test_mean_of_bool_raises(self, ranks: Facts) -> None:
        assert all("bool has no mean" in error for error in rejections(ranks, "mean of bool") or [""])

    @shows("sum_all_reduce")
    def test_sum_of_large_integers_is_exact(self, ranks: Facts, devices: int) -> None:
        total = devices * ranks[0]["large"] + sum(range(devices))

        assert results_of(ranks, "sum of large numbers") == [[total]] * devices

    @shows("sum_all_reduce")
    def test_each_rank_is_counted_once(self, ranks: Facts, devices: int) -> None:
        # Each rank contributes another power of 4: a digit of the sum shows a rank that is counted twice or not at all.
        assert results_of(ranks, "each counted") == [[sum(4**rank for rank in range(devices))] * 5] * devices

    @pytest.mark.parametrize("form", ["transposed", "a part"])
    def test_non_contiguous_all_reduce_is_exact_or_raises(self, ranks: Facts, devices: int, form: str) -> None:
        weight = sum(range(1, devices + 1))
        exact = {
            "transposed": [[0, 3 * weight], [weight, 4 * weight], [2 * weight, 5 * weight]],
            "a part": [devices, 1, devices, 1, devices, 1],
        }[form]

        assert rejections(ranks, form) or results_of(ranks, form) == [exact] * devices

    @shows("sum_all_reduce")
    def test_all_reduce_of_a_slice_leaves_the_rest_unchanged(self, ranks: Facts, devices: int) -> None:
        assert results_of(ranks, "behind others") == [[1, 1, 1, devices, devices, devices]] * devices

    @pytest.mark.parametrize("dtype", FLOATS)
    @pytest.mark.parametrize("word", ["sum", "mean"])
    def test_nan_and_infinity_of_one_rank_reach_all_ranks(
        self, backend: str, ranks: Facts, devices: int, claimed: Claims, word: str, dtype: str
    ) -> None:
        name = f"{word} of no numbers, {dtype}"
        missing = northbridge.load(backend).require_collective().missing_reductions
        if not ((word in missing or may_reject(claimed, dtype)) and rejections(ranks, name)):
            assert results_of(ranks, name) == [[True, True]] * devices

    def test_all_reduce_of_empty_and_scalar_tensors(self, ranks: Facts, devices: int) -> None:
        assert results_of(ranks, "nothing") == [[]] * devices
        assert results_of(ranks, "a number") == [sum(range(1, devices + 1))] * devices

    @shows("sum_all_reduce")
    def test_all_reduce_of_millions_of_elements(self, ranks: Facts, devices: int) -> None:
        assert results_of(ranks, "many") == [[0, 0]] * devices

    @pytest.mark.parametrize("dtype", FLOATS)
    def test_all_reduce_of_a_large_tensor_in_the_dtype(
        self, ranks: Facts, devices: int, claimed: Claims, dtype: str
    ) -> None:
        if not (may_reject(claimed, dtype) and rejections(ranks, f"many of {dtype}")):
            assert results_of(ranks, f"many of {dtype}") == [[0, 0]] * devices

    @pytest.mark.parametrize("root", [0, -1], ids=["the first", "the last"])
    def test_reduce_to_one_rank(self, ranks: Facts, devices: int, root: int) -> None:
        weight = sum(range(1, devices + 1))

        found = results_of(ranks, f"to rank {root % devices}")

        assert found[root] == [[0, 2 * weight], [weight, 3 * weight]]
