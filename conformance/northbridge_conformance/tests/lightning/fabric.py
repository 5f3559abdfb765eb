"""One device and several, in custom loops through Fabric."""

from __future__ import annotations

import pytest

import northbridge
from northbridge_conformance.rank_programs.fabric import STEERED, WAYS
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.fingerprints import fingerprint
from northbridge_conformance.runs.hosts import build
from northbridge_conformance.suite import (
    FABRICS,
    MODELS,
    Differences,
    EqualWeights,
    Runs,
    UsesSuite,
    in_each,
    one_and_several_devices,
    one_and_two_devices,
)


class FabricTraining(EqualWeights):
    """Fabric trains as Lightning's own does on as many CPU ranks."""

    runs: Runs = one_and_several_devices(*FABRICS)
    claims: tuple[str, ...] = ("fit",)
    claims_of_several: tuple[str, ...] = ("ddp_averaging",)
    advice = (
        "Where the Trainer's weights are right and a Fabric's are not, look at what the bridge does after a backward"
        " pass and after a step; else at the operations of the model that differs."
    )

    # Not the ConvNet: its batch norm statistics change its weights without any optimizer.
    @pytest.mark.parametrize("model", [each for each in MODELS if each != "convnet"])
    def test_an_optimizer_made_before_setup_trains_the_model(self, chip: RunResult, model: str) -> None:
        untrained = fingerprint(build(model).state_dict())

        assert all(rank["weights"] != untrained for rank in chip.ranks(f"training {model}"))

    def test_tied_weights_stay_tied(self, chip: RunResult) -> None:
        tied = len(list(build("tied").parameters()))

        assert chip.each("training tied", "parameters") == [tied] * len(chip.ranks("training tied"))

    def test_each_rank_trains_on_a_device_with_an_index(self, device: northbridge.Device, chip: RunResult) -> None:
        for index, rank in enumerate(chip.ranks("training mlp")):
            name = str(device.root(index))
            assert rank["host"] == rank["root device"] == rank["module device"] == name
            assert rank["parameter devices"] == [name]


class FabricLoops(UsesSuite):
    """Accumulation, clipping, closures, schedules and data of a custom loop work as on the CPU."""

    runs: Runs = one_and_two_devices(*FABRICS)
    claims: tuple[str, ...] = ("fit",)
    advice = (
        "The way that differs names what to look at: clipping takes norms, LBFGS dot products, the loaders copies"
        " from pinned memory."
    )

    @pytest.mark.parametrize("way", WAYS)
    def test_weights_and_learning_rate_are_a_cpu_runs(self, differences: Differences, way: str) -> None:
        assert differences("fabric", way) == []

    @pytest.mark.parametrize("way", [way for way in STEERED if way != "plainly"])
    def test_it_makes_a_difference(self, chip: RunResult, way: str) -> None:
        assert chip.each("fabric", way) != chip.each("fabric", "plainly")


class Joining(UsesSuite):
    """Gradients are reduced when the loop asks for it, and ranks may run out of batches at different times."""

    runs: Runs = in_each(FABRICS[0], devices=(2,))
    claims: tuple[str, ...] = ("ddp_averaging",)
    advice = "Join sends zeros for ranks that are done: look at all_reduce of numbers of steps, and at broadcast."

    def test_gradients_wait_where_the_loop_says_so(self, chip: RunResult, differences: Differences) -> None:
        found = chip.each("fabric.join", "accumulated")

        assert differences("fabric.join", "accumulated") == []
        assert found[0]["gradients in between"] != found[1]["gradients in between"]
        assert found[0]["weights"] == found[1]["weights"]

    def test_a_rank_that_has_run_out_of_batches_waits_for_the_other(
        self, chip: RunResult, differences: Differences
    ) -> None:
        found = chip.each("fabric.join", "joined")

        assert differences("fabric.join", "joined") == []
        assert [each["batches"] for each in found] == [2, 4]
        assert found[0]["weights"] == found[1]["weights"]
