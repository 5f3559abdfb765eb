"""The user's own arguments for DDP."""

from __future__ import annotations

import pytest

from northbridge.conformance.scenario import Outcome
from northbridge.conformance.suite import TRAINERS, FaceSuite


@pytest.mark.parametrize("face", TRAINERS)
@pytest.mark.parametrize("devices", [2])
class Strategies(FaceSuite):
    """A stock strategy object and a registered variant keep what the user asked for."""

    def test_a_stock_strategy_object_keeps_its_arguments(self, chip: Outcome) -> None:
        expected = {"find_unused_parameters": True, "gradient_as_bucket_view": True, "kept": True}

        assert chip.ranks("strategies object") == [expected] * 2

    def test_ddp_find_unused_parameters_true_looks_for_unused_parameters(self, chip: Outcome) -> None:
        assert chip.each("strategies name", "find_unused_parameters") == [True] * 2

    @pytest.mark.parametrize("way", ["object", "name"])
    def test_a_model_with_unused_parameters_trains(self, chip: Outcome, cpu: Outcome, way: str) -> None:
        topic = f"strategies {way} fit"

        assert chip.each(topic, "weights") == cpu.each(topic, "weights")

    def test_a_communication_hook_is_called(self, chip: Outcome) -> None:
        # Lightning registers hooks for CUDA alone, and drops others without a word.
        assert all(rank["calls"] > 0 for rank in chip.ranks("strategies hook calls"))
        compressed = {rank["weights"] for rank in chip.ranks("strategies hook fit")}
        assert len(compressed) == 1
        assert compressed != {chip.ranks("training mlp")[0]["weights"]}
