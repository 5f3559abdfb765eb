"""Numbers that the ranks log together."""

from __future__ import annotations

import pytest

from northbridge.conformance.run import RunResult
from northbridge.conformance.suite import TRAINERS, Differences, NamespaceSuite, in_each


class LoggedMetrics(NamespaceSuite):
    """What two ranks log is what two CPU ranks of Lightning's own log."""

    runs = in_each(*TRAINERS, devices=(2,))
    advice = "Look at the Collective's all_reduce of single numbers, floats and whole ones, and at its barrier."

    @pytest.mark.parametrize("reduction", ["mean", "min", "max", "sum"])
    def test_sync_dist_reduces(self, chip: RunResult, differences: Differences, reduction: str) -> None:
        self.check(chip, differences, f"loss {reduction}")

    def test_sync_dist_reduces_a_whole_number(self, chip: RunResult, cpu: RunResult) -> None:
        assert chip.each("metrics", "errors") == cpu.each("metrics", "errors")

    def test_early_stopping_on_a_whole_number_stops_where_it_stops_on_the_cpu(
        self, chip: RunResult, cpu: RunResult
    ) -> None:
        assert chip.each("metrics", "stopped") == cpu.each("metrics", "stopped")
        assert chip.each("metrics", "epochs") == cpu.each("metrics", "epochs")
        assert 0 < chip.each("metrics", "stopped")[0] < 19

    @pytest.mark.parametrize("metric", ["accuracy", "mean loss"])
    def test_a_metric_of_torchmetrics_in_the_module(
        self, chip: RunResult, differences: Differences, metric: str
    ) -> None:
        self.check(chip, differences, metric)

    def check(self, chip: RunResult, differences: Differences, name: str) -> None:
        """Compare what was logged, which is one value on both ranks."""
        found = chip.each("metrics", name)
        assert differences("metrics", name) == []
        assert found[0] == found[1]
