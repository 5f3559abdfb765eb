"""Tensors and objects on their way from rank to rank, without Lightning."""

from __future__ import annotations

from typing import Any

import pytest

from northbridge.conformance.collective.ranks import Claims, Facts, Ranks, everybodys, may_refuse, refusals
from northbridge.conformance.runs.duties import moving
from northbridge.conformance.suite import shows


class Transfers(Ranks):
    """What one rank sends arrives where it is to, whole, and on the device of the rank that gets it.

    A dtype that the chip does not claim may be refused; what is not refused is right.
    """

    advice = (
        "Look at the vendor's process group: the order of ranks, the root of a broadcast, the sizes of parts. A dtype"
        " that the library does not know is left out of the Collective's `carried_dtypes`, and travels as bytes."
    )
    duty = "moving"

    @shows("broadcast")
    def test_broadcast_from_each_rank(self, ranks: Facts, devices: int) -> None:
        for root in range(devices):
            assert everybodys(ranks, f"broadcast from {root}") == [moving.given(root)] * devices

    @shows("broadcast")
    @pytest.mark.parametrize("dtype", moving.DTYPES)
    def test_broadcast_of_each_dtype(self, ranks: Facts, devices: int, claimed: Claims, dtype: str) -> None:
        if not (may_refuse(claimed, dtype) and refusals(ranks, f"broadcast of {dtype}")):
            assert everybodys(ranks, f"broadcast of {dtype}") == [moving.in_dtype(devices - 1)] * devices

    @shows("all_gather")
    @pytest.mark.parametrize("dtype", moving.DTYPES)
    def test_all_gather_of_each_dtype(self, ranks: Facts, devices: int, claimed: Claims, dtype: str) -> None:
        given = [moving.in_dtype(rank) for rank in range(devices)]

        if not (may_refuse(claimed, dtype) and refusals(ranks, f"gathered {dtype}")):
            assert everybodys(ranks, f"gathered {dtype}") == [given] * devices

    @shows("all_gather")
    @pytest.mark.parametrize("way", ["gathered", "gathered by the backend"])
    def test_all_gather(self, ranks: Facts, devices: int, way: str) -> None:
        given = [moving.given(rank) for rank in range(devices)]

        assert everybodys(ranks, way) == [given] * devices

    @shows("all_gather")
    def test_all_gather_into_one_tensor(self, ranks: Facts, devices: int) -> None:
        given = [number for rank in range(devices) for number in moving.given(rank)]

        assert everybodys(ranks, "gathered flat") == [given] * devices

    def test_reduce_scatter(self, ranks: Facts, devices: int) -> None:
        weight = sum(range(1, devices + 1))

        shares = [[2 * rank * weight, (2 * rank + 1) * weight] for rank in range(devices)]
        assert everybodys(ranks, "scattered sums") == shares

    @shows("all_gather")
    def test_objects_are_gathered(self, ranks: Facts, devices: int) -> None:
        given = [{"rank": rank, "text": "ü" * rank} for rank in range(devices)]

        assert everybodys(ranks, "objects") == [given] * devices

    @shows("broadcast")
    def test_objects_are_broadcast(self, ranks: Facts, devices: int) -> None:
        assert everybodys(ranks, "message") == [["from 1", 1]] * devices

    @pytest.mark.parametrize("way", moving.OPTIONAL)
    def test_what_a_library_may_lack_is_right_or_refused_on_every_rank(
        self, ranks: Facts, devices: int, way: str
    ) -> None:
        given = [moving.given(rank) for rank in range(devices)]
        right: dict[str, list[Any]] = {
            "gathered by rank 1": [given if rank == 1 else [] for rank in range(devices)],
            "scattered by rank 1": given,
            "all to all": [[10 * other + rank for other in range(devices)] for rank in range(devices)],
            "sent around": [given[rank - 1] for rank in range(devices)],
        }

        assert refusals(ranks, way) or everybodys(ranks, way) == right[way]
