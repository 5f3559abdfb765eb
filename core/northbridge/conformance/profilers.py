"""Lightning's profilers."""

from __future__ import annotations

import pytest

import northbridge
from northbridge.conformance.scenario import Outcome
from northbridge.conformance.suite import TRAINERS, UsesSuite, in_each


class Profilers(UsesSuite):
    """They change nothing, and tell on each rank of the steps and operators that ran."""

    runs = in_each(*TRAINERS, devices=(1, 2))

    @pytest.mark.parametrize(
        ("profiler", "told"),
        [("simple", "run_training_epoch"), ("advanced", "training_step"), ("pytorch", "aten::")],
    )
    def test_it_tells_of_what_ran_and_changes_nothing(self, chip: Outcome, profiler: str, told: str) -> None:
        for found in chip.ranks("profiling"):
            assert told in found[profiler]["said"]
            assert found[profiler]["weights"] == found["none"]["weights"]

    def test_the_chips_own_time_is_in_the_table_where_it_claims_that(self, chip: Outcome, backend: str) -> None:
        claimed = northbridge.get(backend)
        claim = claimed.capabilities.profiler
        if claim.answer != "yes":
            pytest.skip(f"{backend} does not claim it: {claim.reason or claim.answer}")

        for found in chip.ranks("profiling"):
            assert f"{claimed.device.type.upper()} total" in found["pytorch"]["said"]
