"""Several devices, through the Trainer."""

from __future__ import annotations

import northbridge
from northbridge.conformance.run import RunResult
from northbridge.conformance.suite import TRAINERS, Differences, EqualWeights, cpu_run, several_devices


class DistributedTraining(EqualWeights):
    """A Trainer with several devices trains as Lightning's own does on as many CPU ranks over Gloo.

    The data set has an odd number of samples: the ranks' sampler repeats some.
    """

    runs = several_devices(*TRAINERS)
    claims = ("ddp_averaging",)
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
        # What Lightning tells a rank, such as its number, it adds.
        topic = "after training mlp"
        assert chip.each(topic, "changed") == cpu.each(topic, "changed")

    def test_tied_weights_stay_tied_on_each_rank(self, chip: RunResult, cpu: RunResult) -> None:
        for topic in ("training tied", "after training tied"):
            assert chip.each(topic, "parameters") == cpu.each(topic, "parameters")

    def test_fit_validate_test_and_predict_are_those_of_a_cpu_run(self, differences: Differences) -> None:
        assert differences("stages") == []

    def test_two_optimizers_by_manual_optimization(self, differences: Differences) -> None:
        assert differences("manual_optimization") == []
