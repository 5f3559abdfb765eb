"""Ranks that must have equal weights, or get an error."""

from __future__ import annotations

from northbridge_conformance.rank_programs.weights_agreement import EVERY, STEP
from northbridge_conformance.run import RunResult
from northbridge_conformance.suite import FABRICS, TRAINERS, NamespaceSuite, Runs, in_each, several_devices


class WeightsAgreementTests(NamespaceSuite):
    """The callback compares the ranks' weights over the chip's library, and names the differing rank."""

    runs: Runs = several_devices(*TRAINERS)
    advice = (
        "If ranks agree and are reported to differ, or the other way round: look at all_gather and all_reduce of"
        " integers, which compare the digests."
    )

    def test_ranks_that_agree_train_to_the_end(self, chip: RunResult) -> None:
        for found in chip.each("weights_agreement", "whole"):
            assert found["agreed at"] == found["steps"] == 8
            assert not found["message"]

    def test_a_differing_rank_is_named_at_the_next_check(self, chip: RunResult, devices: int) -> None:
        for found in chip.each("weights_agreement", "changed"):
            assert found["ranks"] == [devices - 1]
            assert found["agreed at"] == STEP // EVERY * EVERY
            assert f"at step {STEP + 1} (equal at step {found['agreed at']}): rank {devices - 1}" in found["message"]
            assert ".5.weight'. Fix: find" in found["message"]


class FabricWeightsAgreement(NamespaceSuite):
    """The same check works when a Fabric's loop calls it."""

    runs: Runs = in_each(*FABRICS, devices=(2,))
    advice = "As for a Trainer's: look at all_gather and all_reduce of whole numbers."

    def test_the_rank_that_differs_is_named_on_every_rank(self, chip: RunResult) -> None:
        for found in chip.each("weights_agreement", "changed"):
            assert found["ranks"] == [1]
            assert found["agreed at"] == 1
            assert "rank 1 differs from rank 0 (a tie" in found["message"]
            assert "in '5.weight'." in found["message"]
