"""The callbacks, loggers and profilers that users pass to a Trainer."""

from __future__ import annotations

import pytest

import northbridge
from northbridge.errors import UnsupportedError
from northbridge_conformance.run import RunResult
from northbridge_conformance.suite import TRAINERS, Differences, Runs, UsesSuite, one_and_two_devices, shows


class Callbacks(UsesSuite):
    """Callbacks and loggers keep and write the same as on the CPU; training callbacks are tested in Optimization."""

    runs: Runs = one_and_two_devices(*TRAINERS)
    advice = (
        "Callbacks read numbers back from the chip: look at copies to the host, at .item(), and at what a"
        " checkpoint's tensors are copied from."
    )

    @shows("fit")
    def test_monitors_and_loggers_change_nothing_and_write(self, chip: RunResult, differences: Differences) -> None:
        found = chip.each("callbacks", "logged")

        assert differences("callbacks", "logged") == []
        assert found[0]["boards"] == [True]
        assert {"lr-Adam", "train/samples", "validation loss"} <= set(found[0]["columns"])

    @shows("fit")
    def test_early_stopping_equals_the_cpus_and_the_timer_measures(self, chip: RunResult, cpu: RunResult) -> None:
        found = chip.each("callbacks", "stopped")

        assert found == cpu.each("callbacks", "stopped")
        assert found[0]["measured"]
        assert 0 < found[0]["epoch"] < 9

    @shows("checkpoint")
    def test_the_best_checkpoints_are_kept_on_the_cpu(self, chip: RunResult, differences: Differences) -> None:
        found = chip.each("callbacks", "kept")

        assert differences("callbacks", "kept") == []
        assert "last.ckpt" in found[0]["files"]
        assert len(found[0]["files"]) == 3
        assert found[0]["devices"] == ["cpu"]

    @shows("fit")
    def test_moving_averages_of_the_weights(self, differences: Differences) -> None:
        # torch averages them one by one on the CPU, and with foreach elsewhere.
        assert differences("callbacks", "averaged", simulated_within=1e-6) == []


class Profilers(UsesSuite):
    """Profilers do not change the training, and report on each rank the steps and operators that ran."""

    runs: Runs = one_and_two_devices(*TRAINERS)
    advice = (
        "torch's profiler asks the vendor's plugin for its activities: look at what it registers with torch, and"
        " claim `profiler` only if it reports the chip's times."
    )

    @pytest.mark.parametrize(
        ("profiler", "told"),
        [("simple", "run_training_epoch"), ("advanced", "training_step"), ("pytorch", "aten::")],
    )
    def test_it_tells_of_what_ran_and_changes_nothing(self, chip: RunResult, profiler: str, told: str) -> None:
        for found in chip.ranks("callbacks.profilers"):
            assert told in found[profiler]["said"]
            assert found[profiler]["weights"] == found["none"]["weights"]

    @shows("profiler")
    def test_each_ranks_trace_and_table_have_the_devices_time(self, chip: RunResult, backend: str) -> None:
        claim = northbridge.get(backend).capabilities.profiler

        found = [each["pytorch"] for each in chip.ranks("callbacks.profilers")]

        if claim.denied:
            assert all(claim.reason in each["said"] for each in found)
            raise UnsupportedError(claim.reason, capability="profiler")
        if not any(events for each in found for events in each["events"]):
            raise UnsupportedError("no trace has an event of the device", capability="profiler")
        for each in found:
            assert each["events"]
            assert all(sum(events) > 0 for events in each["events"])
            assert "device events of" in each["said"]
