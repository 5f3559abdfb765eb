"""Lightning's profilers."""

from __future__ import annotations

import pytest

import northbridge
from northbridge.conformance.run import RunResult
from northbridge.conformance.suite import TRAINERS, UsesSuite, one_and_two_devices, shows
from northbridge.errors import UnsupportedError


class Profilers(UsesSuite):
    """They change nothing, and tell on each rank of the steps and operators that ran."""

    runs = one_and_two_devices(*TRAINERS)
    advice = (
        "torch's profiler asks the vendor's plugin for its activities: look at what it registers with torch, and"
        " claim `profiler` only where times of the chip come of it."
    )

    @pytest.mark.parametrize(
        ("profiler", "told"),
        [("simple", "run_training_epoch"), ("advanced", "training_step"), ("pytorch", "aten::")],
    )
    def test_it_tells_of_what_ran_and_changes_nothing(self, chip: RunResult, profiler: str, told: str) -> None:
        for found in chip.ranks("profilers"):
            assert told in found[profiler]["said"]
            assert found[profiler]["weights"] == found["none"]["weights"]

    @shows("profiler")
    def test_the_chips_own_time_is_in_the_table(self, chip: RunResult, backend: str) -> None:
        column = f"{northbridge.get(backend).device.type.upper()} total"

        told = [column in found["pytorch"]["said"] for found in chip.ranks("profilers")]

        if not any(told):
            raise UnsupportedError(f"the profiler's table has no column {column!r}", capability="profiler")
        assert all(told)
