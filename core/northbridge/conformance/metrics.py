"""Numbers that the ranks log together."""

from __future__ import annotations

from typing import Any

import pytest

from northbridge.conformance.scenario import Outcome
from northbridge.conformance.suite import TRAINERS, Suite, chip_run, cpu_run


class LoggedMetrics(Suite):
    """What two ranks log is what two CPU ranks of Lightning's own log."""

    @pytest.fixture(params=TRAINERS)
    def face(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def chip(self, backend: str, face: str, environ: dict[str, str]) -> list[dict[str, Any]]:
        outcome: Outcome = chip_run(backend, face, 2, environ)
        return outcome.ranks("metrics")

    @pytest.fixture
    def cpu(self, face: str) -> list[dict[str, Any]]:
        return cpu_run(face, 2).ranks("metrics")

    @pytest.mark.parametrize("reduction", ["mean", "min", "max", "sum"])
    def test_sync_dist_reduces(self, chip: list[dict[str, Any]], cpu: list[dict[str, Any]], reduction: str) -> None:
        name = f"loss {reduction}"

        assert [rank[name] for rank in chip] == [rank[name] for rank in cpu]
        assert chip[0][name] == chip[1][name]

    def test_sync_dist_reduces_a_whole_number(self, chip: list[dict[str, Any]], cpu: list[dict[str, Any]]) -> None:
        assert [rank["errors"] for rank in chip] == [rank["errors"] for rank in cpu]

    def test_early_stopping_on_a_whole_number_stops_where_it_stops_on_the_cpu(
        self, chip: list[dict[str, Any]], cpu: list[dict[str, Any]]
    ) -> None:
        assert [(rank["stopped"], rank["epochs"]) for rank in chip] == [
            (rank["stopped"], rank["epochs"]) for rank in cpu
        ]
        assert 0 < chip[0]["stopped"] < 19

    @pytest.mark.parametrize("metric", ["accuracy", "mean loss"])
    def test_a_metric_of_torchmetrics_in_the_module(
        self, chip: list[dict[str, Any]], cpu: list[dict[str, Any]], metric: str
    ) -> None:
        assert [rank[metric] for rank in chip] == [rank[metric] for rank in cpu]
        assert chip[0][metric] == chip[1][metric]
