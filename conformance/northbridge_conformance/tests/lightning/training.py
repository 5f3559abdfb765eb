"""One device, through the Trainer."""

from __future__ import annotations

import pytest

import northbridge
from northbridge_conformance.rank_programs.training import TRAININGS
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.models import TiedWeights
from northbridge_conformance.suite import MODELS, TRAINERS, Differences, EqualWeights, Runs, UsesSuite, in_each, shows
from northbridge_conformance.tests.device.one_device import reject_without


class TrainingTests(EqualWeights):
    """A Trainer with one device trains as Lightning's own does on the CPU."""

    runs: Runs = in_each(*TRAINERS)
    claims: tuple[str, ...] = ("fit",)
    advice = (
        "The model that differs names what to look at: compare its operations with the CPU's one by one, forwards and"
        " backwards. C1 tries most of them. Where they are alike, look at what else the first batches depend on:"
        " Device.seed(), which leaves the CPU's generator alone."
    )

    @pytest.mark.parametrize("model", MODELS)
    def test_the_model_keeps_its_weights_when_it_leaves_the_chip(self, chip: RunResult, model: str) -> None:
        assert chip.only(f"after training {model}")["weights"] == chip.only(f"training {model}")["weights"]

    def test_the_model_trains_on_a_device_with_an_index(self, backend: str, chip: RunResult) -> None:
        found = chip.only("training mlp")

        device = str(northbridge.load(backend).device.root(0))
        assert device.endswith(":0")
        assert found["root device"] == found["module device"] == device
        assert found["parameter devices"] == [device]

    def test_tied_weights_stay_tied_through_fit_and_teardown(self, chip: RunResult) -> None:
        tied = len(list(TiedWeights().parameters()))

        assert chip.only("training tied")["parameters"] == tied
        assert chip.only("after training tied")["parameters"] == tied

    def test_fit_validate_and_test_log_what_they_log_on_the_cpu(
        self, chip: RunResult, differences: Differences
    ) -> None:
        for stage in ("fit", "validate", "test"):
            assert differences("training.stages", stage) == []
        assert set(chip.only("training.stages")["fit"]) == {"loss", "validation loss"}

    def test_predictions_are_those_of_a_cpu_run_and_lie_on_the_cpu(
        self, chip: RunResult, differences: Differences
    ) -> None:
        assert chip.only("training.stages")["prediction devices"] == ["cpu"]
        assert differences("training.stages", "predictions") == []

    def test_two_optimizers_by_manual_optimization(self, differences: Differences) -> None:
        assert differences("training.manual_optimization") == []

    @shows("memory_stats")
    def test_the_device_stats_monitor_logs_the_chips_memory(self, chip: RunResult) -> None:
        columns = chip.only("training.device_stats")["columns"]

        assert chip.only("training.device_stats")["statistics"]
        for statistic in chip.only("training.device_stats")["statistics"]:
            assert f"DeviceStatsMonitor.on_train_batch_end/{statistic}" in columns
        assert any(name.startswith("DeviceStatsMonitor.") and number > 0 for name, number in columns.items())

    @pytest.mark.parametrize("search", ["power", "binsearch"])
    def test_the_search_for_a_batch_size_ends_where_the_chip_is_full(
        self, chip: RunResult, cpu: RunResult, search: str
    ) -> None:
        assert chip.only("training.tune")[search] == cpu.only("training.tune")[search]
        assert 15 <= chip.only("training.tune")[search] <= 16  # newer releases leave a margin

    def test_the_search_for_a_learning_rate_equals_the_cpus(
        self, chip: RunResult, cpu: RunResult, differences: Differences
    ) -> None:
        found = chip.only("training.tune")

        assert differences("training.tune", "losses") == []
        assert found["rate"] == found["suggestion"] == cpu.only("training.tune")["suggestion"]


class RepeatedTraining(UsesSuite):
    """Trainings one after another in the same process leave nothing on the chip."""

    runs: Runs = in_each(*TRAINERS)
    claims: tuple[str, ...] = ("fit",)
    advice = (
        "Look at what is allocated for each Trainer and not released with it: in the Device's select() and"
        " empty_cache(), in the Bridge's hooks, and in workspaces of the vendor's kernels, which a process should"
        " share."
    )

    LEFT_BYTES = 2**16
    """The allowed growth between the first and the last training."""

    @shows("memory_stats")
    def test_they_leave_nothing_on_the_chip(self, backend: str, chip: RunResult) -> None:
        reject_without(backend, "memory_stats")
        held = chip.only("training.repeatedly")["held"]

        assert len(held) == TRAININGS
        assert held[-1] - held[0] <= self.LEFT_BYTES, held
