"""Tensors and objects sent between ranks without Lightning, also by calls that a library may lack."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import northbridge
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.suite import shows
from northbridge_conformance.tests.collective.collective_reductions import (
    BITS,
    FLOATS,
    MANY,
    MOST,
    digits,
    extremes,
    large_number,
    many,
)
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

DTYPES = ("float32", "float16", "bfloat16", "int64", "uint8", "bool")
"""The dtypes in which one rank's tensor is broadcast, and each rank's tensor is gathered."""

LOSSLESS = (*FLOATS, "int64", "int32", "int16", "uint8")
"""The dtypes in which numbers are sent that use every digit of the dtype."""


def transfer(scenario: Scenario, folder: Path) -> None:
    """Broadcast from each rank, and gather; each rank reports its results."""
    rank = meet(scenario)
    found: dict[str, Any] = {"device": str(rank.device)}
    for root in range(rank.ranks):
        found[f"broadcast from {root}"] = attempt(partial(_broadcast, rank, numbers_of(rank.number), root))
    for dtype in DTYPES:
        found[f"broadcast of {dtype}"] = attempt(partial(_broadcast_dtype, rank, getattr(torch, dtype)))
        found[f"gathered {dtype}"] = attempt(partial(_gather_dtype, rank, getattr(torch, dtype)))
    large = found["large"] = large_number(scenario.accelerator)
    for dtype in LOSSLESS:
        number = last_digit(dtype, rank.number, large)
        found[f"digits gathered {dtype}"] = attempt(partial(_gather_digits, rank, dtype, number))
        found[f"digits broadcast {dtype}"] = attempt(partial(_broadcast_digits, rank, dtype, number))
    for dtype in FLOATS:
        found[f"scattered sums of {dtype}"] = attempt(partial(_reduce_scatter_digits, rank, dtype))
    for name, numbers in (("nothing", []), ("a number", rank.number + 1.0)):
        found[f"{name} gathered"] = attempt(partial(_gather_numbers, rank, numbers))
        found[f"{name} broadcast"] = attempt(partial(_broadcast, rank, numbers, rank.ranks - 1))
    ways = {
        "gathered": _gather,
        "gathered flat": _gather_flat,
        "gathered by the backend": _gather_by_the_backend,
        "gathered before": _gather_twice,
        "gathered behind others": _gather_behind_others,
        "broadcast behind others": _broadcast_behind_others,
        "many gathered": _gather_many,
        "many broadcast": _broadcast_many,
        "many scattered": _reduce_scatter_many,
        "scattered sums": _reduce_scatter,
        "scattered averages": _average_scatter,
        "objects": _gather_objects,
        "message": _broadcast_objects,
    }
    found |= {name: attempt(partial(way, rank)) for name, way in ways.items()}
    write(folder, "transfer", rank.number, found)


def numbers_of(rank: int) -> list[float]:
    """Return the numbers that a rank sends."""
    return [rank + 0.5, rank - 0.5]


def in_dtype(rank: int) -> list[int]:
    """Return the numbers that a rank sends in a dtype of :data:`DTYPES`: distinct for each rank, also as bool."""
    return [int(rank == number) for number in range(4)]


def last_digit(dtype: str, rank: int, large: int) -> float:
    """Return the number that a rank sends in ``dtype``: no narrower dtype holds it. ``large`` is the int64 number."""
    if dtype in BITS:
        return 1 + (rank + 1) * 2.0 ** (1 - BITS[dtype])
    return {"int64": large, "int32": 2**31 - 1, "int16": 2**15 - 1, "uint8": 2**8 - 1}[dtype] - rank


def kept(rank: Rank, *tensors: torch.Tensor) -> list[Any]:
    """Return the values of ``tensors``, which must be on the rank's device."""
    for each in tensors:
        assert each.device == rank.device, f"a result is on {each.device}, and the rank on {rank.device}"
    return [each.tolist() for each in tensors]


def _broadcast(rank: Rank, numbers: Any, root: int) -> Any:
    sent = rank.tensor(numbers)
    dist.broadcast(sent, root)
    return kept(rank, sent)[0]


def _gather_numbers(rank: Rank, numbers: Any) -> Any:
    return kept(rank, *rank.collective.all_gather(rank.tensor(numbers)))


def _broadcast_as_carried(rank: Rank, own: torch.Tensor, root: int) -> torch.Tensor:
    """Broadcast a tensor in the form in which the library carries it."""
    sent = rank.collective.as_carried(own).clone()
    dist.broadcast(sent, root)
    return rank.collective.as_sent(sent, own)


def _broadcast_dtype(rank: Rank, dtype: torch.dtype) -> Any:
    own = rank.tensor(in_dtype(rank.number), dtype)
    return kept(rank, _broadcast_as_carried(rank, own, rank.ranks - 1).int())[0]


def _gather_dtype(rank: Rank, dtype: torch.dtype) -> Any:
    gathered = rank.collective.all_gather(rank.tensor(in_dtype(rank.number), dtype))
    return [each.int().tolist() for each in gathered if each.dtype == dtype]


def _gather_digits(rank: Rank, dtype: str, number: float) -> Any:
    gathered = rank.collective.all_gather(rank.tensor([number], getattr(torch, dtype)))
    return [each.item() for each in gathered]


def _broadcast_digits(rank: Rank, dtype: str, number: float) -> Any:
    return _broadcast_as_carried(rank, rank.tensor([number], getattr(torch, dtype)), 0).item()


def _reduce_scatter_digits(rank: Rank, dtype: str) -> Any:
    whole = rank.tensor(digits(dtype, rank.number), getattr(torch, dtype))
    share = torch.empty(whole.numel() // rank.ranks, device=rank.device, dtype=whole.dtype)
    dist.reduce_scatter_tensor(share, whole)
    return kept(rank, share)[0]


def _gather_twice(rank: Rank) -> Any:
    """Gather twice, and return the first result."""
    first = rank.collective.all_gather(rank.tensor(numbers_of(rank.number)))
    rank.collective.all_gather(rank.tensor([-1.0, -1.0]))
    return kept(rank, *first)


def _gather_behind_others(rank: Rank) -> Any:
    """Gather a slice with a storage offset into a slice with a storage offset; return the whole destination."""
    flat = torch.full((2 * rank.ranks + 3,), -1.0, device=rank.device)
    dist.all_gather_into_tensor(flat[3:], rank.tensor([-2.0, *numbers_of(rank.number)])[1:])
    return kept(rank, flat)[0]


def _broadcast_behind_others(rank: Rank) -> Any:
    sent = rank.tensor([-1.0, -1.0, -1.0, *numbers_of(rank.number)])
    dist.broadcast(sent[3:], 0)
    return kept(rank, sent)[0]


def _gather_many(rank: Rank) -> list[float]:
    """Return the smallest and the largest error of gathering a large tensor."""
    numbers = many(rank)
    flat = torch.empty(MANY * rank.ranks, device=rank.device)
    dist.all_gather_into_tensor(flat, numbers + rank.number)
    return extremes(flat - torch.cat([numbers + each for each in range(rank.ranks)]))


def _broadcast_many(rank: Rank) -> list[float]:
    numbers = many(rank, MOST)
    sent = numbers + rank.number
    dist.broadcast(sent, rank.ranks - 1)
    return extremes(sent - numbers - (rank.ranks - 1))


def _reduce_scatter_many(rank: Rank) -> list[float]:
    numbers = many(rank)
    share = torch.empty(MANY, device=rank.device)
    dist.reduce_scatter_tensor(share, torch.cat([numbers + each for each in range(rank.ranks)]) * (rank.number + 1))
    return extremes(share - (numbers + rank.number) * sum(range(1, rank.ranks + 1)))


def _gather(rank: Rank) -> Any:
    own = rank.tensor(numbers_of(rank.number))
    gathered = [torch.empty_like(own) for _ in range(rank.ranks)]
    dist.all_gather(gathered, own)
    return kept(rank, *gathered)


def _gather_flat(rank: Rank) -> Any:
    flat = torch.empty(2 * rank.ranks, device=rank.device)
    dist.all_gather_into_tensor(flat, rank.tensor(numbers_of(rank.number)))
    return kept(rank, flat)[0]


def _gather_by_the_backend(rank: Rank) -> Any:
    # The tensor is not contiguous.
    return kept(rank, *rank.collective.all_gather(rank.tensor([[each, 0.0] for each in numbers_of(rank.number)])[:, 0]))


def _reduce_scatter(rank: Rank) -> Any:
    share = torch.empty(2, device=rank.device)
    dist.reduce_scatter_tensor(share, torch.arange(2.0 * rank.ranks, device=rank.device) * (rank.number + 1))
    return kept(rank, share)[0]


def _average_scatter(rank: Rank) -> Any:
    """Let the library itself average, as FSDP2 does."""
    share = torch.empty(2, device=rank.device)
    whole = torch.arange(2.0 * rank.ranks, device=rank.device) * (rank.number + 1) * rank.ranks
    dist.reduce_scatter_tensor(share, whole, dist.ReduceOp.AVG)
    return kept(rank, share)[0]


def _gather_objects(rank: Rank) -> Any:
    objects: list[Any] = [None] * rank.ranks
    dist.all_gather_object(objects, {"rank": rank.number, "text": "ü" * rank.number})
    return objects


def _broadcast_objects(rank: Rank) -> Any:
    message = [f"from {rank.number}", rank.number]
    dist.broadcast_object_list(message, 1)
    return message


class Transfers(Ranks):
    """A rank's data arrives at the right rank, complete, and on that rank's device.

    A dtype that the chip does not claim may be refused; if it is not, its results must be right.
    """

    advice = (
        "Look at the vendor's process group: the order of ranks, the root of a broadcast, the sizes of parts. A dtype"
        " that the library does not know is left out of the Collective's `carried_dtypes`, and travels as bytes."
    )
    step = "transfer"

    @shows("broadcast")
    def test_broadcast_from_each_rank(self, ranks: Facts, devices: int) -> None:
        for root in range(devices):
            assert results_of(ranks, f"broadcast from {root}") == [numbers_of(root)] * devices

    @shows("broadcast")
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_broadcast_of_each_dtype(self, ranks: Facts, devices: int, claimed: Claims, dtype: str) -> None:
        if not (may_reject(claimed, dtype) and rejections(ranks, f"broadcast of {dtype}")):
            assert results_of(ranks, f"broadcast of {dtype}") == [in_dtype(devices - 1)] * devices

    @shows("all_gather")
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_all_gather_of_each_dtype(self, ranks: Facts, devices: int, claimed: Claims, dtype: str) -> None:
        given = [in_dtype(rank) for rank in range(devices)]

        if not (may_reject(claimed, dtype) and rejections(ranks, f"gathered {dtype}")):
            assert results_of(ranks, f"gathered {dtype}") == [given] * devices

    @shows("all_gather")
    @pytest.mark.parametrize("dtype", LOSSLESS)
    def test_all_gather_is_lossless(self, ranks: Facts, devices: int, claimed: Claims, dtype: str) -> None:
        right: Any = [last_digit(dtype, rank, ranks[0]["large"]) for rank in range(devices)]

        if not (may_reject(claimed, dtype) and rejections(ranks, f"digits gathered {dtype}")):
            assert results_of(ranks, f"digits gathered {dtype}") == [as_held(right, dtype, claimed)] * devices

    @shows("broadcast")
    @pytest.mark.parametrize("dtype", LOSSLESS)
    def test_broadcast_is_lossless(self, ranks: Facts, devices: int, claimed: Claims, dtype: str) -> None:
        right: Any = last_digit(dtype, 0, ranks[0]["large"])

        if not (may_reject(claimed, dtype) and rejections(ranks, f"digits broadcast {dtype}")):
            assert results_of(ranks, f"digits broadcast {dtype}") == [as_held(right, dtype, claimed)] * devices

    @shows("broadcast")
    def test_broadcast_of_a_large_tensor(self, ranks: Facts, devices: int) -> None:
        assert results_of(ranks, "many broadcast") == [[0, 0]] * devices

    @shows("all_gather")
    def test_all_gather_of_a_large_tensor(self, ranks: Facts, devices: int) -> None:
        assert results_of(ranks, "many gathered") == [[0, 0]] * devices

    @shows("broadcast")
    def test_broadcast_of_a_slice_leaves_the_rest_unchanged(self, ranks: Facts, devices: int) -> None:
        assert results_of(ranks, "broadcast behind others") == [[-1, -1, -1, *numbers_of(0)]] * devices

    @shows("all_gather")
    def test_all_gather_into_a_slice_leaves_the_rest_unchanged(self, ranks: Facts, devices: int) -> None:
        given = [number for rank in range(devices) for number in numbers_of(rank)]

        assert results_of(ranks, "gathered behind others") == [[-1, -1, -1, *given]] * devices

    @shows("all_gather")
    def test_second_all_gather_keeps_the_first_result(self, ranks: Facts, devices: int) -> None:
        given = [numbers_of(rank) for rank in range(devices)]

        assert results_of(ranks, "gathered before") == [given] * devices

    @shows("broadcast")
    def test_broadcast_of_empty_and_scalar_tensors(self, ranks: Facts, devices: int) -> None:
        assert results_of(ranks, "nothing broadcast") == [[]] * devices
        assert results_of(ranks, "a number broadcast") == [devices] * devices

    @shows("all_gather")
    def test_all_gather_of_empty_and_scalar_tensors(self, ranks: Facts, devices: int) -> None:
        assert results_of(ranks, "nothing gathered") == [[[]] * devices] * devices
        assert results_of(ranks, "a number gathered") == [list(range(1, devices + 1))] * devices

    @shows("all_gather")
    @pytest.mark.parametrize("way", ["gathered", "gathered by the backend"])
    def test_all_gather(self, ranks: Facts, devices: int, way: str) -> None:
        given = [numbers_of(rank) for rank in range(devices)]

        assert results_of(ranks, way) == [given] * devices

    @shows("all_gather")
    def test_all_gather_into_one_tensor(self, ranks: Facts, devices: int) -> None:
        given = [number for rank in range(devices) for number in numbers_of(rank)]

        assert results_of(ranks, "gathered flat") == [given] * devices

    def test_reduce_scatter(self, ranks: Facts, devices: int) -> None:
        weight = sum(range(1, devices + 1))

        shares = [[2 * rank * weight, (2 * rank + 1) * weight] for rank in range(devices)]
        assert results_of(ranks, "scattered sums") == shares

    def test_reduce_scatter_average_is_exact_or_raises(self, backend: str, ranks: Facts, devices: int) -> None:
        weight = sum(range(1, devices + 1))

        if northbridge.load(backend).require_collective().averages or not rejections(ranks, "scattered averages"):
            shares = [[2 * rank * weight, (2 * rank + 1) * weight] for rank in range(devices)]
            assert results_of(ranks, "scattered averages") == shares

    def test_reduce_scatter_of_a_large_tensor(self, ranks: Facts, devices: int) -> None:
        assert results_of(ranks, "many scattered") == [[0, 0]] * devices

    @pytest.mark.parametrize("dtype", FLOATS)
    def test_reduce_scatter_keeps_the_full_precision_of_the_dtype(
        self, ranks: Facts, devices: int, claimed: Claims, dtype: str
    ) -> None:
        given = [digits(dtype, rank) for rank in range(devices)]
        sums: Any = [sum(column) for column in zip(*given, strict=True)]
        size = len(sums) // devices
        right = [as_held(sums[size * rank : size * (rank + 1)], dtype, claimed) for rank in range(devices)]

        if not (may_reject(claimed, dtype) and rejections(ranks, f"scattered sums of {dtype}")):
            assert results_of(ranks, f"scattered sums of {dtype}") == right

    @shows("all_gather")
    def test_objects_are_gathered(self, ranks: Facts, devices: int) -> None:
        given = [{"rank": rank, "text": "ü" * rank} for rank in range(devices)]

        assert results_of(ranks, "objects") == [given] * devices

    @shows("broadcast")
    def test_objects_are_broadcast(self, ranks: Facts, devices: int) -> None:
        assert results_of(ranks, "message") == [["from 1", 1]] * devices
