"""Trainings that outlast a checkpoint that could not be written or read."""

from __future__ import annotations

import pytest

import northbridge
from northbridge.conformance.run import RunResult
from northbridge.conformance.suite import FABRICS, TRAINERS, UsesSuite, one_and_two_devices


class Outlasting(UsesSuite):
    """One error, on every rank alike, and a training that may go on as if nothing had been."""

    runs = one_and_two_devices(*TRAINERS, *FABRICS)
    claims = ("checkpoint",)
    advice = "An error while a checkpoint is written must leave the chip usable: look at copies to the host that raise."

    def test_a_checkpoint_that_cannot_be_written_is_an_error_on_every_rank(self, chip: RunResult) -> None:
        first, *others = chip.each("failed_checkpoints", "said")

        assert first[0].startswith("the checkpoint /proc/last.ckpt could not be written: ")
        for said in others:
            assert said[0].startswith("rank 0 could not write the checkpoint /proc/last.ckpt, so no rank goes on: ")

    def test_what_is_no_checkpoint_is_an_error(self, chip: RunResult) -> None:
        for said in chip.each("failed_checkpoints", "said"):
            assert ".ckpt could not be read as a checkpoint: " in said[1]

    def test_the_training_goes_on_with_the_same_weights_on_the_chip(self, chip: RunResult, backend: str) -> None:
        for found in chip.ranks("failed_checkpoints"):
            assert found["weights"][0] == found["weights"][1]
            assert found["devices"] == [northbridge.get(backend).device.type]


class UsersCheckpointIO(UsesSuite):
    """A CheckpointIO of the user's, and Lightning's that writes in a thread of its own."""

    runs = one_and_two_devices(*TRAINERS)
    claims = ("checkpoint",)
    advice = "What is written later than it was asked for has changed: look at copies to the host that do not block."

    @pytest.mark.parametrize("io", ["own", "asynchronous"])
    def test_it_writes_the_weights_of_the_moment(self, chip: RunResult, io: str) -> None:
        for found in chip.each("failed_checkpoints", io):
            assert found == {"as it was": True, "errors": []}

    def test_it_is_given_tensors_on_the_cpu_by_one_rank(self, chip: RunResult, devices: int) -> None:
        assert chip.each("failed_checkpoints", "own wrote") == [["cpu"], []][:devices]
