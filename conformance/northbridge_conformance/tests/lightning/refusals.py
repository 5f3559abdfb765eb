"""Errors instead of a silent run on the CPU."""

from __future__ import annotations

import pytest

import northbridge
from northbridge_conformance.run import RunResult
from northbridge_conformance.suite import FABRICS, TRAINERS, NamespaceSuite, Runs, in_each


class Refusals(NamespaceSuite):
    """A run that would leave the chip is refused."""

    runs: Runs = in_each(*TRAINERS, *FABRICS)
    advice = (
        "A tensor that is not on the chip must be an error of the vendor's kernels, and never be computed on the CPU."
    )

    def test_a_strategy_on_the_cpu(self, backend: str, chip: RunResult) -> None:
        found = chip.only("refusals single device on the CPU")

        assert found["type"] == "WrongDeviceError"
        assert f"accelerator={backend!r}, but the strategy's root device is 'cpu'" in found["message"]

    def test_a_ddp_strategy_on_the_cpu(self, backend: str, chip: RunResult) -> None:
        found = chip.only("refusals DDP on the CPU")

        assert found["type"] in ("MisconfigurationException", "ValueError")  # Lightning's own words
        assert f"accelerator set to {backend}" in found["message"]

    def test_a_tensor_that_was_left_on_the_cpu(self, backend: str, chip: RunResult) -> None:
        found = chip.only("refusals tensor left on the CPU")

        assert found["type"] == "RuntimeError"
        assert northbridge.get(backend).device.type in found["message"]

    @pytest.mark.parametrize("group", ["gloo", "fake"])
    def test_a_process_group_that_is_not_the_chips_collective(self, backend: str, chip: RunResult, group: str) -> None:
        found = chip.only(f"refusals group of {group}")

        chips = northbridge.get(backend)
        assert found["type"] == "CollectiveError"
        assert f"{chips.device.type!r} needs {chips.collective.name!r}" in found["message"]
        assert group in found["message"]
