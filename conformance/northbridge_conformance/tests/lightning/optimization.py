"""The ways to train that Lightning's users choose."""

from __future__ import annotations

import pytest

from northbridge_conformance.rank_programs.optimization import WAYS
from northbridge_conformance.run import RunResult
from northbridge_conformance.suite import TRAINERS, Differences, Runs, UsesSuite, one_and_two_devices


class Optimization(UsesSuite):
    """Optimizers, clipping, accumulation, schedules and training callbacks work as on the CPU."""

    runs: Runs = one_and_two_devices(*TRAINERS)
    claims: tuple[str, ...] = ("fit",)
    advice = (
        "The way that differs names what to look at: an optimizer its foreach kernels, clipping its norms, accumulating"
        " on several devices DDP's no_sync(), a schedule nothing of the chip's."
    )

    @pytest.mark.parametrize("way", WAYS)
    def test_weights_steps_and_learning_rates_are_those_of_a_cpu_run(self, differences: Differences, way: str) -> None:
        assert differences("optimization", way) == []

    @pytest.mark.parametrize("way", [way for way in WAYS if way != "plainly"])
    def test_it_makes_a_difference(self, chip: RunResult, way: str) -> None:
        assert chip.each("optimization", way) != chip.each("optimization", "plainly")
