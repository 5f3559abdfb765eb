"""Reduce, gather and broadcast, as Lightning's users write it."""

from __future__ import annotations

from typing import Any

import pytest

from northbridge.conformance.rank_programs.reductions import FLOATS, wholes
from northbridge.conformance.run import RunResult
from northbridge.conformance.suite import FABRICS, TRAINERS, NamespaceSuite, several_devices, shows

OPERATIONS = [f"{reduction} of {kind}" for kind in ("float", "int64") for reduction in ("sum", "mean", "min", "max")]


def expected(operation: str, devices: int, large: int) -> list[float]:
    """Return what every rank ends up with, where whole numbers lie about ``large``."""
    results: dict[int, dict[str, list[float]]] = {
        2: {
            "sum of float": [4.5, -6.0],
            "mean of float": [2.25, -3.0],
            "min of float": [1.5, -4.0],
            "max of float": [3.0, -2.0],
            "sum of int64": [2 * large + 5, -9],
            "mean of int64": [large + 2, -4],
            "min of int64": [large + 1, -7],
            "max of int64": [large + 4, -2],
        },
        4: {
            "sum of float": [3.75, 2.5],
            "mean of float": [0.9375, 0.625],
            "min of float": [-1.0, -4.0],
            "max of float": [3.0, 8.0],
            "sum of int64": [4 * large + 10, 5],
            "mean of int64": [large + 2, 1],
            "min of int64": [large + 1, -7],
            "max of int64": [large + 4, 9],
        },
    }
    return results[devices][operation]


class Reductions(NamespaceSuite):
    """Several ranks exchange numbers through the strategy, the module, and Fabric."""

    runs = several_devices(*TRAINERS, *FABRICS)
    advice = (
        "Look at the Collective's all_reduce: in place, whole numbers exact and their mean cut towards zero, and at"
        " `exact_dtypes`, which says what the library would round."
    )

    @pytest.fixture
    def found(self, chip: RunResult) -> list[dict[str, Any]]:
        return chip.ranks("reductions")

    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_a_reduction_is_exact(self, devices: int, found: list[dict[str, Any]], operation: str) -> None:
        exact = expected(operation, devices, found[0]["large"])

        assert [rank[operation]["result"] for rank in found] == [exact] * devices

    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_a_reduction_is_made_in_place(self, devices: int, found: list[dict[str, Any]], operation: str) -> None:
        exact = expected(operation, devices, found[0]["large"])

        assert [rank[operation]["in place"] for rank in found] == [exact] * devices

    def test_results_stay_on_the_ranks_device(self, chip: RunResult, found: list[dict[str, Any]]) -> None:
        for rank, trained in zip(found, chip.ranks("training mlp"), strict=True):
            assert {rank[operation]["device"] for operation in OPERATIONS} == {trained["root device"]}
            assert rank["gathered on"] == [trained["root device"]]

    @shows("all_gather")
    def test_all_gather_stacks_what_the_ranks_give(self, devices: int, found: list[dict[str, Any]]) -> None:
        given = {"float": FLOATS[:devices], "int64": wholes(found[0]["large"])[:devices]}

        stacked = {kind: [list(each) for each in ranks] for kind, ranks in given.items()}
        assert [rank["gathered"] for rank in found] == [stacked] * devices

    @shows("all_gather")
    def test_gradients_flow_back_through_all_gather(self, devices: int, found: list[dict[str, Any]]) -> None:
        weights = range(1, devices + 1)  # rank 0 weighs what all gave with 1, rank 1 with 2 and so on

        assert [rank["gradient of a gather"] for rank in found] == [[float(sum(weights))] * 2] * devices

    @shows("broadcast")
    def test_broadcast_carries_objects_and_tensors_of_rank_0(self, devices: int, found: list[dict[str, Any]]) -> None:
        assert [rank["broadcast"] for rank in found] == [{"from": 0, "text": "ü"}] * devices
        assert [rank["broadcast tensor"] for rank in found] == [list(wholes(found[0]["large"])[0])] * devices
