"""Several devices, through the Trainer, and with the user's own arguments for DDP."""

from __future__ import annotations

import pytest

import northbridge
from northbridge_conformance.run import RunResult
from northbridge_conformance.suite import (
    TRAINERS,
    Differences,
    EqualWeights,
    NamespaceSuite,
    Runs,
    cpu_run,
    in_each,
    several_devices,
)


class DistributedTraining(EqualWeights):
    """A Trainer with several devices trains as Lightning's own does on as many CPU ranks over Gloo.

    The dataset has an odd number of samples, so the ranks' sampler repeats some.
    """

    runs: Runs = several_devices(*TRAINERS)
    claims: tuple[str, ...] = ("ddp_averaging",)
    advice = (
        "Where one device trains right and several do not, look at the sum all-reduce of the library, at its"
        " broadcast of weights and buffers, and at which device each rank takes."
    )

    def test_the_weights_differ_from_those_of_one_device(self, namespace: str, chip: RunResult) -> None:
        alone = cpu_run(namespace, 1).only("training mlp")["weights"]

        assert chip.ranks("training mlp")[0]["weights"] != alone

    def test_each_rank_trains_on_a_device_of_its_own(
        self, device: northbridge.Device, devices: int, chip: RunResult
    ) -> None:
        for index, rank in enumerate(chip.ranks("training mlp")):
            name = str(device.root(index))
            assert rank["root device"] == rank["module device"] == name
            assert rank["parameter devices"] == [name]
            assert rank["world size"] == devices

    def test_each_rank_has_every_variable_as_it_was(self, chip: RunResult, cpu: RunResult) -> None:
        # Lightning adds a rank's own variables, such as its number.
        topic = "after training mlp"
        assert chip.each(topic, "changed") == cpu.each(topic, "changed")

    def test_tied_weights_stay_tied_on_each_rank(self, chip: RunResult, cpu: RunResult) -> None:
        for topic in ("training tied", "after training tied"):
            assert chip.each(topic, "parameters") == cpu.each(topic, "parameters")

    def test_fit_validate_test_and_predict_are_those_of_a_cpu_run(self, differences: Differences) -> None:
        assert differences("training.stages") == []

    def test_two_optimizers_by_manual_optimization(self, differences: Differences) -> None:
        assert differences("training.manual_optimization") == []


class Strategies(NamespaceSuite):
    """A stock strategy object and a registered variant keep the user's arguments."""

    runs: Runs = in_each(*TRAINERS, devices=(2,))
    claims: tuple[str, ...] = ("ddp_averaging",)
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

    def test_ddp_find_unused_parameters_true_finds_them(self, chip: RunResult) -> None:
        assert chip.each("strategies name", "find_unused_parameters") == [True] * 2

    @pytest.mark.parametrize("way", ["object", "name"])
    def test_a_model_with_unused_parameters_trains(self, differences: Differences, way: str) -> None:
        assert differences(f"strategies {way} fit", "weights") == []

    def test_a_communication_hook_is_called(self, backend: str, chip: RunResult) -> None:
        # Lightning registers hooks only for CUDA, and silently drops others.
        assert all(rank["calls"] > 0 for rank in chip.ranks("strategies hook calls"))
        compressed = {rank["weights"] for rank in chip.ranks("strategies hook fit")}
        assert len(compressed) == 1
        assert (compressed != {chip.ranks("training mlp")[0]["weights"]}) == (not denies(backend, "float16"))


def denies(backend: str, claim: str) -> bool:
    """Return True if the chip denies ``claim``; a hook for that dtype then compresses nothing."""
    return northbridge.load(backend).present_capabilities().claims()[claim].denied
