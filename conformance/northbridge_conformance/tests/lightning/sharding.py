"""Models that are sharded over several devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import northbridge
from northbridge.lightning.namespaces import NAMESPACES
from northbridge_conformance.rank_programs.sharding import CHECKPOINT
from northbridge_conformance.run import LIMIT_S, RunResult, run
from northbridge_conformance.runs.differences import tolerance
from northbridge_conformance.runs.fingerprints import fingerprint
from northbridge_conformance.runs.processes import start
from northbridge_conformance.runs.run_environment import environ_of_runs
from northbridge_conformance.runs.scenario import Scenario
from northbridge_conformance.suite import FABRICS, TRAINERS, NamespaceSuite, Runs, Steps, always, in_each
from northbridge_conformance.tests.lightning.ddp import denies

SHARDED: Steps = always("sharding", "fsdp")
"""The steps of the runs that every class about sharded models reads."""

_TOLERANCE = 1e-5
"""The tolerance for a loss: a sum over ranks and one over the whole batch have different orders."""


class Sharding(NamespaceSuite):
    """A model sharded over ranks by FSDP2 and tensor parallel learns as one process on the CPU does."""

    runs: Runs = ((TRAINERS[0], 4), (FABRICS[0], 4), (TRAINERS[-1], 2), (FABRICS[-1], 2))
    steps: Steps = SHARDED
    claims: tuple[str, ...] = ("sharding",)
    advice = (
        "FSDP2 gathers parameters into one tensor and reduces gradients by scattering: look at all_gather_into_tensor"
        " and reduce_scatter_tensor, at the Collective's `averages`, and at views of flat memory."
    )

    def test_the_losses_are_those_of_one_process(self, backend: str, chip: RunResult) -> None:
        for found in chip.ranks("sharding"):
            ways = [losses for name, losses in found.items() if " x " in name]
            assert len(ways) >= 2
            for losses in ways:
                assert losses == pytest.approx(found["alone"], abs=tolerance(backend, _TOLERANCE), rel=0)

    def test_every_rank_holds_a_part_of_the_model_on_its_device(
        self, backend: str, devices: int, chip: RunResult
    ) -> None:
        root = northbridge.load(backend).device.root

        for rank, found in enumerate(chip.ranks("sharding")):
            assert found["devices"] == [str(root(rank))]
            assert 0 < found["held"] < found["in all"]

    def test_the_ranks_end_with_the_same_weights(self, devices: int, chip: RunResult) -> None:
        weights = chip.each("sharding", "weights")

        assert weights == weights[:1] * devices

    def test_bf16_mixed_computes_in_bfloat16_inside_the_model(self, backend: str, chip: RunResult) -> None:
        dtypes = [] if denies(backend, "bfloat16") else ["torch.bfloat16"]

        for found in chip.ranks("sharding"):
            assert found["inside"] == dtypes

    def test_the_shards_of_all_ranks_become_one_plain_file(
        self, namespace: str, chip: RunResult, tmp_path: Path
    ) -> None:
        tool = f"{NAMESPACES[namespace].fabric}.utilities.consolidate_checkpoint"
        file = tmp_path / "plain.ckpt"
        shards = str((chip.folder / CHECKPOINT).absolute())
        # The tool imports modules from its working folder: the test's own, and not the user's.
        with (tmp_path / "said.txt").open("wb") as output:
            tooling = start(["-m", tool, shards, "--output_file", str(file)], environ_of_runs(), tmp_path, output)
        assert tooling.wait(LIMIT_S) == 0, (tmp_path / "said.txt").read_text(errors="replace")

        plain: dict[str, Any] = torch.load(file, weights_only=True)
        weights = plain["state_dict"] if "state_dict" in plain else plain["net"]

        assert {each.device.type for each in weights.values()} == {"cpu"}
        named = {name.removeprefix("net."): each for name, each in weights.items()}
        assert fingerprint(named) == chip.each("sharding", "weights")[0]


class Resharding(NamespaceSuite):
    """Two ranks resume from the shards of four."""

    runs: Runs = in_each(TRAINERS[0], FABRICS[0], devices=(4,))
    steps: Steps = SHARDED
    claims: tuple[str, ...] = ("sharding",)
    advice = "Shards are read into views of tensors on the chip: look at copies into parts of a tensor."

    def test_two_ranks_go_on_with_the_shards_of_four(
        self, backend: str, namespace: str, environ: dict[str, str], chip: RunResult
    ) -> None:
        resumed = run(Scenario(backend, namespace, ("sharding",), 2, resume=str(chip.folder)), environ)

        for found in resumed.ranks("sharding taken up"):
            rest = found["alone"][-len(found["taken up"]) :]
            assert 0 < len(rest) < len(found["alone"])
            assert found["taken up"] == pytest.approx(rest, abs=tolerance(backend, _TOLERANCE), rel=0)
