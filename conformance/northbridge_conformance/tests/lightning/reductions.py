"""Reduce, gather, broadcast and log as Lightning's users do."""

from __future__ import annotations

from typing import Any

import pytest

from northbridge_conformance.rank_programs.collective_reductions import reduced
from northbridge_conformance.rank_programs.reductions import FLOATS, wholes
from northbridge_conformance.run import RunResult
from northbridge_conformance.suite import (
    FABRICS,
    TRAINERS,
    Differences,
    NamespaceSuite,
    Runs,
    in_each,
    several_devices,
    shows,
)

OPERATIONS = [f"{reduction} of {kind}" for kind in ("float", "int64") for reduction in ("sum", "mean", "min", "max")]


def expected(operation: str, devices: int, large: int) -> list[float]:
    """Return every rank's expected result; the integers are near ``large``."""
    word, _, kind = operation.partition(" of ")
    given = FLOATS if kind == "float" else wholes(large)
    return reduced(word, given[:devices], whole=kind == "int64")


class Reductions(NamespaceSuite):
    """Reductions, gathers and broadcasts over several ranks work through the strategy, the module, and Fabric."""

    runs: Runs = several_devices(*TRAINERS, *FABRICS)
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
        weights = range(1, devices + 1)  # rank r weighs the gathered values with r + 1

        assert [rank["gradient of a gather"] for rank in found] == [[float(sum(weights))] * 2] * devices

    @shows("broadcast")
    def test_broadcast_carries_objects_and_tensors_of_rank_0(self, devices: int, found: list[dict[str, Any]]) -> None:
        assert [rank["broadcast"] for rank in found] == [{"from": 0, "text": "ü"}] * devices
        assert [rank["broadcast tensor"] for rank in found] == [list(wholes(found[0]["large"])[0])] * devices


class LoggedMetrics(NamespaceSuite):
    """Two ranks log the same metrics as two CPU ranks of Lightning's own."""

    runs: Runs = in_each(*TRAINERS, devices=(2,))
    advice = "Look at the Collective's all_reduce of single numbers, floats and whole ones, and at its barrier."

    @pytest.mark.parametrize("reduction", ["mean", "min", "max", "sum"])
    def test_sync_dist_reduces(self, chip: RunResult, differences: Differences, reduction: str) -> None:
        self.check(chip, differences, f"loss {reduction}")

    def test_sync_dist_reduces_a_whole_number(self, chip: RunResult, cpu: RunResult) -> None:
        assert chip.each("reductions.metrics", "errors") == cpu.each("reductions.metrics", "errors")

    def test_early_stopping_on_an_integer_equals_the_cpus(self, chip: RunResult, cpu: RunResult) -> None:
        assert chip.each("reductions.metrics", "stopped") == cpu.each("reductions.metrics", "stopped")
        assert chip.each("reductions.metrics", "epochs") == cpu.each("reductions.metrics", "epochs")
        assert 0 < chip.each("reductions.metrics", "stopped")[0] < 19

    @pytest.mark.parametrize("metric", ["accuracy", "mean loss"])
    def test_a_metric_of_torchmetrics_in_the_module(
        self, chip: RunResult, differences: Differences, metric: str
    ) -> None:
        self.check(chip, differences, metric)

    def check(self, chip: RunResult, differences: Differences, name: str) -> None:
        """Compare a logged metric, which must be equal on both ranks."""
        found = chip.each("reductions.metrics", name)
        assert differences("reductions.metrics", name) == []
        assert found[0] == found[1]
