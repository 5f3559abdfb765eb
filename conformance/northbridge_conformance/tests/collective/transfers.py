"""Tensors and objects sent between ranks without Lightning, also by calls that a library may lack."""

from __future__ import annotations

from typing import Any

import pytest

import northbridge
from northbridge_conformance.rank_programs import transfers
from northbridge_conformance.rank_programs.collective_reductions import FLOATS, digits
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


class Transfers(Ranks):
    """A rank's data arrives at the right rank, complete, and on that rank's device.

    A dtype that the chip does not claim may be refused; if it is not, its results must be right.
    """

    advice = (
        "Look at the vendor's process group: the order of ranks, the root of a broadcast, the sizes of parts. A dtype"
        " that the library does not know is left out of the Collective's `carried_dtypes`, and travels as bytes."
    )
    step = "transfers"

    @shows("broadcast")
    def test_broadcast_from_each_rank(self, ranks: Facts, devices: int) -> None:
        for root in range(devices):
            assert everybodys(ranks, f"broadcast from {root}") == [transfers.given(root)] * devices

    @shows("broadcast")
    @pytest.mark.parametrize("dtype", transfers.DTYPES)
    def test_broadcast_of_each_dtype(self, ranks: Facts, devices: int, claimed: Claims, dtype: str) -> None:
        if not (may_reject(claimed, dtype) and rejections(ranks, f"broadcast of {dtype}")):
            assert everybodys(ranks, f"broadcast of {dtype}") == [transfers.in_dtype(devices - 1)] * devices

    @shows("all_gather")
    @pytest.mark.parametrize("dtype", transfers.DTYPES)
    def test_all_gather_of_each_dtype(self, ranks: Facts, devices: int, claimed: Claims, dtype: str) -> None:
        given = [transfers.in_dtype(rank) for rank in range(devices)]

        if not (may_reject(claimed, dtype) and rejections(ranks, f"gathered {dtype}")):
            assert everybodys(ranks, f"gathered {dtype}") == [given] * devices

    @shows("all_gather")
    @pytest.mark.parametrize("dtype", transfers.LOSSLESS)
    def test_all_gather_loses_no_digit_of(self, ranks: Facts, devices: int, claimed: Claims, dtype: str) -> None:
        right: Any = [transfers.last_digit(dtype, rank, ranks[0]["large"]) for rank in range(devices)]

        if not (may_reject(claimed, dtype) and rejections(ranks, f"digits gathered {dtype}")):
            assert everybodys(ranks, f"digits gathered {dtype}") == [as_held(right, dtype, claimed)] * devices

    @shows("broadcast")
    @pytest.mark.parametrize("dtype", transfers.LOSSLESS)
    def test_broadcast_loses_no_digit_of(self, ranks: Facts, devices: int, claimed: Claims, dtype: str) -> None:
        right: Any = transfers.last_digit(dtype, 0, ranks[0]["large"])

        if not (may_reject(claimed, dtype) and rejections(ranks, f"digits broadcast {dtype}")):
            assert everybodys(ranks, f"digits broadcast {dtype}") == [as_held(right, dtype, claimed)] * devices

    @shows("broadcast")
    def test_many_numbers_are_broadcast(self, ranks: Facts, devices: int) -> None:
        assert everybodys(ranks, "many broadcast") == [[0, 0]] * devices

    @shows("all_gather")
    def test_many_numbers_are_gathered(self, ranks: Facts, devices: int) -> None:
        assert everybodys(ranks, "many gathered") == [[0, 0]] * devices

    @shows("broadcast")
    def test_a_broadcast_of_a_part_leaves_the_rest_alone(self, ranks: Facts, devices: int) -> None:
        assert everybodys(ranks, "broadcast behind others") == [[-1, -1, -1, *transfers.given(0)]] * devices

    @shows("all_gather")
    def test_what_stands_behind_others_is_gathered_behind_others(self, ranks: Facts, devices: int) -> None:
        given = [number for rank in range(devices) for number in transfers.given(rank)]

        assert everybodys(ranks, "gathered behind others") == [[-1, -1, -1, *given]] * devices

    @shows("all_gather")
    def test_what_was_gathered_stays_when_more_is_gathered(self, ranks: Facts, devices: int) -> None:
        given = [transfers.given(rank) for rank in range(devices)]

        assert everybodys(ranks, "gathered before") == [given] * devices

    @shows("broadcast")
    def test_a_broadcast_of_empty_and_scalar_tensors(self, ranks: Facts, devices: int) -> None:
        assert everybodys(ranks, "nothing broadcast") == [[]] * devices
        assert everybodys(ranks, "a number broadcast") == [devices] * devices

    @shows("all_gather")
    def test_no_numbers_and_one_without_a_dimension_are_gathered(self, ranks: Facts, devices: int) -> None:
        assert everybodys(ranks, "nothing gathered") == [[[]] * devices] * devices
        assert everybodys(ranks, "a number gathered") == [list(range(1, devices + 1))] * devices

    @shows("all_gather")
    @pytest.mark.parametrize("way", ["gathered", "gathered by the backend"])
    def test_all_gather(self, ranks: Facts, devices: int, way: str) -> None:
        given = [transfers.given(rank) for rank in range(devices)]

        assert everybodys(ranks, way) == [given] * devices

    @shows("all_gather")
    def test_all_gather_into_one_tensor(self, ranks: Facts, devices: int) -> None:
        given = [number for rank in range(devices) for number in transfers.given(rank)]

        assert everybodys(ranks, "gathered flat") == [given] * devices

    def test_reduce_scatter(self, ranks: Facts, devices: int) -> None:
        weight = sum(range(1, devices + 1))

        shares = [[2 * rank * weight, (2 * rank + 1) * weight] for rank in range(devices)]
        assert everybodys(ranks, "scattered sums") == shares

    def test_a_scattered_average_is_right_if_there_is_one(self, backend: str, ranks: Facts, devices: int) -> None:
        weight = sum(range(1, devices + 1))

        if northbridge.load(backend).collective.averages or not rejections(ranks, "scattered averages"):
            shares = [[2 * rank * weight, (2 * rank + 1) * weight] for rank in range(devices)]
            assert everybodys(ranks, "scattered averages") == shares

    def test_reduce_scatter_of_many_numbers(self, ranks: Facts, devices: int) -> None:
        assert everybodys(ranks, "many scattered") == [[0, 0]] * devices

    @pytest.mark.parametrize("dtype", FLOATS)
    def test_reduce_scatter_loses_no_digit_of(self, ranks: Facts, devices: int, claimed: Claims, dtype: str) -> None:
        given = [digits(dtype, rank) for rank in range(devices)]
        sums: Any = [sum(column) for column in zip(*given, strict=True)]
        size = len(sums) // devices
        right = [as_held(sums[size * rank : size * (rank + 1)], dtype, claimed) for rank in range(devices)]

        if not (may_reject(claimed, dtype) and rejections(ranks, f"scattered sums of {dtype}")):
            assert everybodys(ranks, f"scattered sums of {dtype}") == right

    @shows("all_gather")
    def test_objects_are_gathered(self, ranks: Facts, devices: int) -> None:
        given = [{"rank": rank, "text": "ü" * rank} for rank in range(devices)]

        assert everybodys(ranks, "objects") == [given] * devices

    @shows("broadcast")
    def test_objects_are_broadcast(self, ranks: Facts, devices: int) -> None:
        assert everybodys(ranks, "message") == [["from 1", 1]] * devices


class Exchanges(Ranks):
    """Scattered and all-to-all parts, point-to-point tensors and non-contiguous tensors arrive, or the call raises."""

    advice = (
        "Look at the vendor's process group: sizes of parts, which rank is meant within a group, and tensors whose"
        " numbers do not lie one after another. What the library does not do has to raise on every rank."
    )
    step = "transfers.exchange"

    @pytest.mark.parametrize("way", transfers.EXCHANGES)
    def test_an_optional_call_is_right_or_refused_on_every_rank(self, ranks: Facts, devices: int, way: str) -> None:
        given = [transfers.given(rank) for rank in range(devices)]
        right: dict[str, list[Any]] = {
            "gathered by rank 1": [given if rank == 1 else [] for rank in range(devices)],
            "scattered by rank 1": given,
            "all to all, uneven": [
                [number for sender in range(devices) for number in transfers.uneven(sender, rank, devices)]
                for rank in range(devices)
            ],
            "broadcast transposed": [[[10, 13], [11, 14], [12, 15]]] * devices,
            "broadcast of a part": [[1, rank] * 3 for rank in range(devices)],
            "all to all": [[10 * other + rank for other in range(devices)] for rank in range(devices)],
            "sent around": [given[rank - 1] for rank in range(devices)],
        }

        assert rejections(ranks, way) or everybodys(ranks, way) == right[way]
