"""Trainings that end before they are done, and are taken up."""

from __future__ import annotations

from northbridge.conformance.duties.interrupting import EVERY_N_STEPS, INTERRUPTED
from northbridge.conformance.scenario import Outcome, Scenario, run
from northbridge.conformance.suite import TRAINERS, FaceSuite, UsesSuite, in_each, require, require_devices


class Preemption(UsesSuite):
    """A training that SIGTERM ends, as a cluster sends it, writes a checkpoint, and goes on where it was."""

    runs = in_each(*TRAINERS, devices=(1, 2))

    def test_what_is_taken_up_ends_with_the_weights_of_a_training_that_went_through(self, chip: Outcome) -> None:
        for found in chip.ranks("interrupting"):
            assert found["taken up"]["weights"] == found["through"]["weights"]

    def test_it_goes_on_after_the_batch_in_which_the_signal_came(self, chip: Outcome) -> None:
        for found in chip.ranks("interrupting"):
            assert found["taken up"]["began"] == INTERRUPTED + 1


class Restarts(FaceSuite):
    """Under torchrun with restarts, a killed rank costs the steps since the last checkpoint and no more."""

    runs = in_each(TRAINERS[0])

    def test_the_ranks_take_up_the_last_checkpoint_and_end_with_the_weights_of_an_undisturbed_run(
        self, backend: str, face: str, environ: dict[str, str]
    ) -> None:
        require(face)
        require_devices(backend, 2)
        undisturbed = run(Scenario(backend, face, ("interrupting",), 2), environ)
        restarted = run(Scenario(backend, face, ("interrupting",), 2, launch="restarts"), environ)

        weights = [each["weights"] for each in undisturbed.each("interrupting", "through")]
        assert restarted.each("interrupting", "after a restart") == [
            {"weights": each, "began": INTERRUPTED - INTERRUPTED % EVERY_N_STEPS} for each in weights
        ]
