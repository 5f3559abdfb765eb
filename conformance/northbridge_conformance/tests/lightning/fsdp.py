"""Models that torch's first FSDP shards over several devices."""

from __future__ import annotations

import pytest

import northbridge
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.differences import tolerance
from northbridge_conformance.suite import NamespaceSuite, Runs, Steps
from northbridge_conformance.tests.lightning.ddp import denies
from northbridge_conformance.tests.lightning.sharding import SHARDED, Sharding

_TOLERANCE = 1e-5
"""The tolerance for a loss: a sum over ranks and one over the whole batch have different orders."""


class FSDP(NamespaceSuite):
    """A model sharded over ranks by torch's first FSDP learns as one process on the CPU does."""

    runs: Runs = Sharding.runs
    steps: Steps = SHARDED
    claims: tuple[str, ...] = ("fsdp",)
    advice = (
        "FSDP keeps the parameters in one flat tensor, whose storage it empties and fills: look at storages of 0"
        " bytes, at views, at reduce_scatter_tensor and at streams."
    )

    def test_the_losses_are_those_of_one_process(self, backend: str, devices: int, chip: RunResult) -> None:
        for found in chip.ranks("fsdp"):
            assert len(found["losses"]) == (3 if devices == 4 else 2)
            for way, losses in found["losses"].items():
                expected = pytest.approx(found["alone"], abs=tolerance(backend, _TOLERANCE), rel=0)
                assert losses == expected, way

    def test_every_rank_holds_a_part_of_the_model_on_its_device(self, backend: str, chip: RunResult) -> None:
        root = northbridge.load(backend).device.root

        for rank, found in enumerate(chip.ranks("fsdp")):
            assert found["devices"] == [str(root(rank))]
            assert found["held"] < found["in all"]

    def test_the_ranks_end_with_the_same_weights(self, devices: int, chip: RunResult) -> None:
        weights = chip.each("fsdp", "weights")

        assert weights == weights[:1] * devices

    def test_bf16_mixed_computes_in_bfloat16_inside_the_model(self, backend: str, chip: RunResult) -> None:
        dtypes = [] if denies(backend, "bfloat16") else ["torch.bfloat16"]

        for found in chip.ranks("fsdp"):
            assert found["inside"] == dtypes
