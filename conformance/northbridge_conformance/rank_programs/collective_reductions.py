"""Reduce tensors of the chip over the ranks, through the backend."""

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
from northbridge_conformance.runs.findings import write
from northbridge_conformance.runs.ranks import Rank, attempt, meet
from northbridge_conformance.runs.scenario import Scenario

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


def perform(scenario: Scenario, folder: Path) -> None:
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
    write(folder, "collective_reductions", rank.number, found)


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
