"""Models that DeepSpeed shards over several devices."""

from __future__ import annotations

import copy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

import northbridge
from northbridge.lightning.namespaces import Stock
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.comparison import TOLERANCES, tolerance
from northbridge_conformance.runs.hosts import build, combine, module_of, own_rank, trainer
from northbridge_conformance.runs.models import adam, pictures
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.suite import TRAINERS, Runs, UsesSuite, in_each

BATCH = 8
WAYS = ("stage 1", "stage 2", "stage 3", "stage 2, offloaded")


def train_with_deepspeed(scenario: Scenario, folder: Path) -> None:
    """Report each way's losses, the sizes of the optimizer's shard, and what it consists of."""
    claim = northbridge.load(scenario.accelerator).present_capabilities().deepspeed
    if claim.answer == "unknown":
        return  # its tests are skipped, and the run's other tests are not to fail with it
    if not claim.denied and find_spec("deepspeed") is None:
        write(folder, "train_with_deepspeed", own_rank(), {"missing": "DeepSpeed is not installed"})
        return
    assert isinstance(scenario.devices, int)
    found: dict[str, Any] = {"missing": "", "alone": _alone(scenario.devices)}
    rank = 0
    if claim.denied:
        trainer(scenario, folder, strategy="deepspeed")
    for way in WAYS:
        found[way], rank = _fit(scenario, folder, way)
    if not northbridge.load(scenario.accelerator).present_capabilities().bfloat16.denied:
        found["bfloat16"], rank = _fit(scenario, folder, "stage 2", precision="bf16-mixed")
    write(folder, "train_with_deepspeed", rank, found)


def _fit(scenario: Scenario, folder: Path, way: str, **options: Any) -> tuple[dict[str, Any], int]:
    offloads = {"offload_optimizer": True, "pin_memory": True} if way.endswith("offloaded") else {}
    small = dict.fromkeys(("reduce_bucket_size", "allgather_bucket_size"), 100_000)  # the default fills small chips
    stage = int(way.split()[1].rstrip(","))
    strategy = module_of(scenario, "strategies").DeepSpeedStrategy(stage=stage, **small, **offloads)
    host = trainer(scenario, folder, max_epochs=1, strategy=strategy, use_distributed_sampler=False, **options)
    module = combine(scenario.namespace, _OverShards)()
    host.fit(module, DataLoader(_parts(host.world_size)[host.global_rank], batch_size=BATCH))
    return {"losses": module.losses, **module.shard}, host.global_rank


def _parts(ranks: int) -> list[Any]:
    rows = list(zip(*pictures(3 * BATCH * ranks).tensors, strict=True))
    return [rows[rank::ranks] for rank in range(ranks)]


def _alone(ranks: int) -> list[list[float]]:
    """Return each rank's losses as one process has them that averages the gradients of all batches."""
    net = build("mlp")
    optimizer = adam(net.parameters())
    losses: list[list[float]] = [[] for _ in range(ranks)]
    for batches in zip(*(DataLoader(part, batch_size=BATCH) for part in _parts(ranks)), strict=True):
        optimizer.zero_grad()
        for rank, (inputs, labels) in enumerate(batches):
            loss = cross_entropy(net(inputs), labels)
            losses[rank].append(loss.item())
            torch.autograd.backward(loss / ranks)
        optimizer.step()
    return losses


class _OverShards(Stock):  # type: ignore[misc]  # of Lightning's module
    def __init__(self) -> None:
        super().__init__()
        self.net = build("mlp")
        self.losses: list[float] = []
        self.shard: dict[str, Any] = {}

    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        inputs, labels = batch
        loss = cross_entropy(self.net(inputs).float(), labels)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> Any:
        return adam(self.parameters())

    def on_train_end(self) -> None:
        # Through the optimizer's own groups: with ZeRO they are this rank's shards, in the precision of the step.
        optimizer = self.trainer.strategy.model.optimizer.optimizer
        shards = [each for state in optimizer.state.values() for each in state.values() if each.dim()]
        groups = [each for group in optimizer.param_groups for each in group["params"]]
        weights = [each.detach().float().cpu() for each in copy.copy(groups)]
        self.shard = {
            "held": sum(each.numel() for each in shards) // 2,  # Adam keeps two numbers for each weight
            "in all": sum(getattr(each, "ds_numel", each.numel()) for each in self.parameters()),
            "devices": sorted({each.device.type for each in shards}),
            "dtypes": sorted({str(each.dtype) for each in groups}),
            "exact": any(bool((each != each.bfloat16().float()).any()) for each in weights),
        }


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
        ranks = chip.ranks("train_with_deepspeed")
        if ranks[0]["missing"]:
            pytest.skip(ranks[0]["missing"])
        return list(ranks)

    @pytest.mark.parametrize("way", WAYS)
    def test_losses_match_training_in_one_process(self, backend: str, found: list[dict[str, Any]], way: str) -> None:
        for rank, told in enumerate(found):
            wanted = told["alone"][rank]
            assert told[way]["losses"] == pytest.approx(wanted, abs=tolerance(backend), rel=0)

    def test_each_rank_holds_a_shard_of_the_optimizer_state(self, devices: int, found: list[dict[str, Any]]) -> None:
        for way in WAYS:
            held = [told[way]["held"] for told in found]
            whole = found[0][way]["in all"]
            assert sum(held) >= whole
            assert max(held) <= whole / devices + 64  # shards are filled up to a multiple of few numbers

    def test_offloaded_optimizer_state_is_in_host_memory(self, backend: str, found: list[dict[str, Any]]) -> None:
        chip = northbridge.get(backend).device.type

        assert [told["stage 2, offloaded"]["devices"] for told in found] == [["cpu"]] * len(found)
        assert [told["stage 2"]["devices"] for told in found] == [[chip]] * len(found)

    def test_master_weights_stay_float32_in_bfloat16_training(self, found: list[dict[str, Any]]) -> None:
        for told in found:
            if "bfloat16" in told:
                mixed = told["bfloat16"]
                assert (mixed["dtypes"], mixed["exact"]) == (["torch.float32"], True)
                wanted = told["stage 2"]["losses"]
                assert mixed["losses"] == pytest.approx(wanted, abs=TOLERANCES["bfloat16"], rel=0)
