"""Models that DeepSpeed shards over several devices."""

from __future__ import annotations

from typing import Any

import pytest

import northbridge
from northbridge_conformance.rank_programs.deepspeed import WAYS
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.differences import TOLERANCES, tolerance
from northbridge_conformance.suite import TRAINERS, Runs, UsesSuite, in_each

_TOLERANCE = 1e-5
"""The tolerance for a loss: a sum over shards and one over the whole have different orders."""


class DeepSpeed(UsesSuite):
    """A model sharded by DeepSpeed's ZeRO learns as one process on the CPU does, or is refused."""

    claims: tuple[str, ...] = ("deepspeed",)
    runs: Runs = in_each(*TRAINERS, devices=(2,))
    advice = (
        "Look at the accelerator that Acceleration.deepspeed_accelerator names: its device, its streams and its pinned"
        " memory. ZeRO reduces by scattering and gathers flat tensors: look at those of the library, too."
    )

    @pytest.fixture
    def found(self, chip: RunResult) -> list[dict[str, Any]]:
        """What each rank has found; skips the test without DeepSpeed."""
        ranks = chip.ranks("deepspeed")
        if ranks[0]["missing"]:
            pytest.skip(ranks[0]["missing"])
        return list(ranks)

    @pytest.mark.parametrize("way", WAYS)
    def test_the_losses_are_those_of_one_process(self, backend: str, found: list[dict[str, Any]], way: str) -> None:
        for rank, told in enumerate(found):
            wanted = told["alone"][rank]
            assert told[way]["losses"] == pytest.approx(wanted, abs=tolerance(backend, _TOLERANCE), rel=0)

    def test_every_rank_holds_its_shard_of_the_optimizer(self, devices: int, found: list[dict[str, Any]]) -> None:
        for way in WAYS:
            held = [told[way]["held"] for told in found]
            whole = found[0][way]["in all"]
            assert sum(held) >= whole
            assert max(held) <= whole / devices + 64  # shards are filled up to a multiple of few numbers

    def test_an_offloaded_optimizer_is_in_host_memory(self, backend: str, found: list[dict[str, Any]]) -> None:
        chip = northbridge.get(backend).device.type

        assert [told["stage 2, offloaded"]["devices"] for told in found] == [["cpu"]] * len(found)
        assert [told["stage 2"]["devices"] for told in found] == [[chip]] * len(found)

    def test_master_weights_of_bfloat16_stay_float32(self, found: list[dict[str, Any]]) -> None:
        for told in found:
            if "bfloat16" in told:
                mixed = told["bfloat16"]
                assert (mixed["dtypes"], mixed["exact"]) == (["torch.float32"], True)
                wanted = told["stage 2"]["losses"]
                assert mixed["losses"] == pytest.approx(wanted, abs=TOLERANCES["bfloat16"], rel=0)
