"""The user's own arguments for DDP."""

from __future__ import annotations

import pytest

import northbridge
from northbridge.conformance.run import RunResult
from northbridge.conformance.suite import TRAINERS, Differences, NamespaceSuite, in_each


class Strategies(NamespaceSuite):
    """A stock strategy object and a registered variant keep what the user asked for."""

    runs = in_each(*TRAINERS, devices=(2,))
    claims = ("ddp_averaging",)
    advice = (
        "Look at the Collective's ddp_options(), which the user's own arguments win over, and at all_reduce of"
        " bfloat16 and float16, which hooks compress to."
    )

    def test_a_stock_strategy_object_keeps_its_arguments(self, chip: RunResult) -> None:
        for found in chip.ranks("strategies object"):
            assert found["find_unused_parameters"]
            assert found["gradient_as_bucket_view"]
            assert found["kept"]

    def test_options_of_ddp_reach_it(self, chip: RunResult) -> None:
        assert chip.each("strategies static_graph", "static_graph") == [True] * 2
        assert chip.each("strategies bucket_cap_mb", "bucket_bytes_cap") == [1048] * 2  # 0.001 MiB
        for option in ("static_graph", "bucket_cap_mb"):
            assert chip.each(f"strategies {option} fit", "weights") == chip.each("training mlp", "weights")

    @pytest.mark.parametrize(
        ("hook", "dtype"),
        [("bf16 compression", "bfloat16"), ("fp16 compression, wrapped", "float16"), ("model_averaging_period", None)],
    )
    def test_hooks_of_torch_change_what_travels_and_the_ranks_agree(
        self, backend: str, chip: RunResult, hook: str, dtype: str | None
    ) -> None:
        found = chip.each(f"strategies {hook} fit", "weights")

        assert found[0] == found[1]
        compresses = dtype is not None and not denies(backend, dtype)
        assert (found[0] != chip.ranks("training mlp")[0]["weights"]) == compresses

    def test_ddp_find_unused_parameters_true_looks_for_unused_parameters(self, chip: RunResult) -> None:
        assert chip.each("strategies name", "find_unused_parameters") == [True] * 2

    @pytest.mark.parametrize("way", ["object", "name"])
    def test_a_model_with_unused_parameters_trains(self, differences: Differences, way: str) -> None:
        assert differences(f"strategies {way} fit", "weights") == []

    def test_a_communication_hook_is_called(self, backend: str, chip: RunResult) -> None:
        # Lightning registers hooks for CUDA alone, and drops others without a word.
        assert all(rank["calls"] > 0 for rank in chip.ranks("strategies hook calls"))
        compressed = {rank["weights"] for rank in chip.ranks("strategies hook fit")}
        assert len(compressed) == 1
        assert (compressed != {chip.ranks("training mlp")[0]["weights"]}) == (not denies(backend, "float16"))


def denies(backend: str, claim: str) -> bool:
    """Whether the chip says that it does not do what ``claim`` is about; such a hook compresses nothing."""
    return northbridge.load(backend).present_capabilities().claims()[claim].denied
