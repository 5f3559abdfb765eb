"""Reduce, gather and broadcast, as Lightning's users write it."""

from __future__ import annotations

from typing import Any

import pytest

from northbridge.conformance.duties.reductions import FLOATS, wholes
from northbridge.conformance.scenario import Outcome
from northbridge.conformance.suite import FABRICS, TRAINERS, FaceSuite

OPERATIONS = [f"{reduction} of {kind}" for kind in ("float", "int64") for reduction in ("sum", "mean", "min", "max")]


def expected(operation: str, large: int) -> list[float]:
    """Return what both ranks end up with, where whole numbers lie about ``large``."""
    results: dict[str, list[float]] = {
        "sum of float": [4.5, -6.0],
        "mean of float": [2.25, -3.0],
        "min of float": [1.5, -4.0],
        "max of float": [3.0, -2.0],
        "sum of int64": [2 * large + 5, -9],
        "mean of int64": [large + 2, -4],
        "min of int64": [large + 1, -7],
        "max of int64": [large + 4, -2],
    }
    return results[operation]


@pytest.mark.parametrize("face", [*TRAINERS, *FABRICS])
@pytest.mark.parametrize("devices", [2])
class Reductions(FaceSuite):
    """Two ranks exchange numbers through the strategy, the module, and Fabric."""

    @pytest.fixture
    def found(self, chip: Outcome) -> list[dict[str, Any]]:
        return chip.ranks("reductions")

    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_a_reduction_is_exact(self, found: list[dict[str, Any]], operation: str) -> None:
        assert [rank[operation]["result"] for rank in found] == [expected(operation, found[0]["large"])] * 2

    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_a_reduction_is_made_in_place(self, found: list[dict[str, Any]], operation: str) -> None:
        assert [rank[operation]["in place"] for rank in found] == [expected(operation, found[0]["large"])] * 2

    def test_results_stay_on_the_ranks_device(self, chip: Outcome, found: list[dict[str, Any]]) -> None:
        for rank, trained in zip(found, chip.ranks("autocasting mlp"), strict=True):
            assert {rank[operation]["device"] for operation in OPERATIONS} == {trained["root device"]}
            assert rank["gathered on"] == [trained["root device"]]

    def test_all_gather_stacks_what_the_ranks_give(self, found: list[dict[str, Any]]) -> None:
        given = {"float": [list(each) for each in FLOATS], "int64": [list(each) for each in wholes(found[0]["large"])]}

        assert [rank["gathered"] for rank in found] == [given] * 2

    def test_gradients_flow_back_through_all_gather(self, found: list[dict[str, Any]]) -> None:
        # Rank 0 weighs what both gave with 1, rank 1 with 2.
        assert [rank["gradient of a gather"] for rank in found] == [[3.0, 3.0]] * 2

    def test_broadcast_carries_objects_and_tensors_of_rank_0(self, found: list[dict[str, Any]]) -> None:
        assert [rank["broadcast"] for rank in found] == [{"from": 0, "text": "ü"}] * 2
        assert [rank["broadcast tensor"] for rank in found] == [list(wholes(found[0]["large"])[0])] * 2
