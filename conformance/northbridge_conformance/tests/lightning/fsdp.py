"""Models that torch's first FSDP shards over several devices."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import northbridge
from northbridge.lightning.namespaces import Stock
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.comparison import fingerprint, tolerance
from northbridge_conformance.runs.hosts import build, combine, fabric, is_trainer, module_of
from northbridge_conformance.runs.models import adam
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.suite import Runs
from northbridge_conformance.tests.collective.ranks import attempt
from northbridge_conformance.tests.lightning.precision import dtypes_inside
from northbridge_conformance.tests.lightning.sharding import ShardedModel, Sharding, alone, fit, loop

_EPOCHS = 2
_WAYS = {"FULL_SHARD": "sharded", "SHARD_GRAD_OP": "full"}
"""The ways to shard, each with the kind of the checkpoint from which its second epoch resumes."""

_HYBRID = {"HYBRID_SHARD": "sharded"}  # a copy of the model in each pair of ranks


def train_with_fsdp(scenario: Scenario, folder: Path) -> None:
    """Train an epoch in each way, save, and resume for the second."""
    one = _fit if is_trainer(scenario.namespace) else _loop
    found: dict[str, Any] = {"losses": {}}
    for way, kind in (_WAYS | (_HYBRID if scenario.ranks == 4 else {})).items():
        checkpoint = folder / f"{way}.ckpt"
        first, second = (
            one(scenario, folder, _strategy(scenario, way, kind), checkpoint, epochs)
            for epochs in (range(1), range(1, _EPOCHS))
        )
        found["losses"][f"{way}, {kind}"] = first["losses"] + second["losses"]
        found |= {name: second[name] for name in ("weights", "devices")}
        found.setdefault("held", second["held"])  # of FULL_SHARD
    found["in all"] = sum(each.numel() for each in build("mlp").parameters())
    found["inside"] = attempt(partial(_dtypes_inside, scenario, folder, one))
    found["alone"] = alone()
    write(folder, "train_with_fsdp", torch.distributed.get_rank(), found)


def _strategy(scenario: Scenario, way: str, kind: str) -> Any:
    stock = module_of(scenario, "strategies").FSDPStrategy
    more = {"device_mesh": (2, 2)} if way in _HYBRID else {}
    return stock(sharding_strategy=way, state_dict_type=kind, auto_wrap_policy={nn.Linear}, **more)


def _dtypes_inside(scenario: Scenario, folder: Path, one: Any) -> list[str]:
    if northbridge.load(scenario.accelerator).present_capabilities().bfloat16.denied:
        return []
    strategy = _strategy(scenario, "FULL_SHARD", "sharded")
    with dtypes_inside() as inside:
        one(scenario, folder, strategy, folder / "mixed.ckpt", range(1), precision="bf16-mixed")
    return sorted(inside)


def _fit(
    scenario: Scenario, folder: Path, strategy: Any, checkpoint: Path, epochs: range, precision: str = "32-true"
) -> dict[str, Any]:
    module = combine(scenario.namespace, _Wrapped)()
    host = fit(scenario, folder, module, checkpoint, epochs, strategy=strategy, precision=precision)
    return {"losses": module.losses, **_facts(host.strategy.model)}


def _loop(
    scenario: Scenario, _folder: Path, strategy: Any, checkpoint: Path, epochs: range, precision: str = "32-true"
) -> dict[str, Any]:
    host = fabric(scenario, strategy=strategy, precision=precision)
    host.launch()
    inner = build("mlp")
    net: Any
    net, optimizer = host.setup(inner, adam(inner.parameters()))
    losses = loop(host, net, optimizer, checkpoint, epochs, _mine)
    return {"losses": losses, **_facts(net._forward_module)}


def _mine(batch: Any) -> Any:
    """Return this rank's rows of a batch."""
    among, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
    return [each.chunk(among)[rank] for each in batch]


def _facts(wrapped: nn.Module) -> dict[str, Any]:
    from torch.distributed.fsdp import FullyShardedDataParallel

    parameters = list(wrapped.parameters())
    held, devices = sum(each.numel() for each in parameters), sorted({str(each.device) for each in parameters})
    with FullyShardedDataParallel.summon_full_params(wrapped, writeback=False):
        whole = {name: each.detach().cpu() for name, each in wrapped.named_parameters()}
    return {"weights": fingerprint(whole), "held": held, "devices": devices}


class _Wrapped(Stock):  # type: ignore[misc]  # of Lightning's module
    def __init__(self) -> None:
        super().__init__()
        self.net = build("mlp")
        self.losses: list[float] = []

    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        images, labels = _mine(batch)
        loss = cross_entropy(self.net(images), labels)
        self.losses.append(float(self.trainer.strategy.reduce(loss.detach(), reduce_op="mean")))
        return loss

    def configure_optimizers(self) -> Any:
        return adam(self.parameters())


class FSDP(ShardedModel):
    """A model sharded over ranks by torch's first FSDP learns as one process on the CPU does."""

    runs: Runs = Sharding.runs
    step = "train_with_fsdp"
    claims: tuple[str, ...] = ("fsdp",)
    advice = (
        "FSDP keeps the parameters in one flat tensor, whose storage it empties and fills: look at storages of 0"
        " bytes, at views, at reduce_scatter_tensor and at streams."
    )

    def test_losses_match_training_in_one_process(self, backend: str, devices: int, chip: RunResult) -> None:
        for found in chip.ranks(self.step):
            assert len(found["losses"]) == (3 if devices == 4 else 2)
            for way, losses in found["losses"].items():
                expected = pytest.approx(found["alone"], abs=tolerance(backend), rel=0)
                assert losses == expected, way
