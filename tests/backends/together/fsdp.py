"""Train with torch's FSDP on the devices of an accelerator, in every way that a user may ask for.

Rank 0 prints, for each way, the largest distance of its losses from DDP's.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import lightning.fabric
import lightning.pytorch
import torch
from lightning.pytorch.strategies import FSDPStrategy, ModelParallelStrategy
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader

import northbridge

warnings.simplefilter("ignore")
ACCELERATOR, DEVICES = sys.argv[1], int(sys.argv[2])
QUIET: dict[str, Any] = dict.fromkeys(
    ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
)


def build() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Sequential(nn.Linear(10, 30), nn.ReLU()), nn.Sequential(nn.Linear(30, 30)), nn.Linear(30, 3)
    )


class Model(lightning.pytorch.LightningModule):
    from_trainer = False
    empty = False
    shard: Callable[[nn.Module, Any], object] | None = None

    def __init__(self) -> None:
        super().__init__()
        self.losses: list[float] = []
        self.dtypes: set[torch.dtype] = set()
        self.net = nn.Sequential() if self.empty else build()

    def configure_model(self) -> None:
        if self.empty and len(self.net) == 0:
            with torch.device("meta"):
                self.net = build()
        if self.shard is not None:
            type(self).shard(self.net, self.device_mesh["data_parallel"])  # type: ignore[misc,index]

    def training_step(self, batch: Tensor, index: int) -> Tensor:
        out = self.net(batch)
        self.dtypes.add(out.dtype)
        loss: Tensor = out.float().square().mean()
        self.losses.append(float(self.trainer.strategy.reduce(loss.detach(), reduce_op="mean")))
        return loss

    def configure_optimizers(self) -> Any:
        module: Any = self.trainer.model if self.from_trainer else self
        return torch.optim.AdamW(module.parameters(), 1e-2)


def batches() -> DataLoader[Tensor]:
    numbers: Any = torch.randn(48, 10, generator=torch.Generator().manual_seed(1))
    return DataLoader(numbers, batch_size=4)


def fit(strategy: Any, model: type[Model] = Model, **options: Any) -> Any:
    module = model()
    placed: dict[str, Any] = {"accelerator": ACCELERATOR, "devices": DEVICES}
    trainer = lightning.pytorch.Trainer(**{**placed, **QUIET, "strategy": strategy, "max_epochs": 2, **options})
    trainer.fit(module, batches())
    return module, trainer


def fabric_losses(strategy: Any, epochs: range, path: Path, empty: bool = False) -> list[float]:
    host = lightning.fabric.Fabric(accelerator=ACCELERATOR, devices=DEVICES, strategy=strategy)
    host.launch()
    net: Any
    optimizer: Any
    if empty:
        with host.init_module(empty_init=True):
            inner = build()
        assert {each.device.type for each in inner.parameters()} == {"meta"}
        net = host.setup_module(inner)
        optimizer = host.setup_optimizers(torch.optim.AdamW(net.parameters(), 1e-2))
    else:
        inner = build()
        net, optimizer = host.setup(inner, torch.optim.AdamW(inner.parameters(), 1e-2))
    state: dict[str, Any] = {"net": net, "optimizer": optimizer, "epoch": epochs.start}
    if epochs.start:
        host.load(path, state)
        assert state["epoch"] == 1
    losses = []
    for _ in epochs:
        for batch in host.setup_dataloaders(batches()):
            optimizer.zero_grad()
            loss = net(batch).square().mean()
            host.backward(loss)
            assert host.clip_gradients(net, optimizer, max_norm=1e6) is not None
            optimizer.step()
            losses.append(float(host.all_reduce(loss.detach(), reduce_op="mean")))  # type: ignore[arg-type]
    if not epochs.start:
        host.save(path, {**state, "epoch": 1})
    return losses


class OfTrainer(Model):
    from_trainer = True


class Blocks(Model):
    shard = staticmethod(lambda net, mesh: northbridge.shard_blocks(net, mesh=mesh))


class OneLayer(Model):
    shard = staticmethod(lambda net, mesh: fully_shard(net[0], mesh=mesh))


class Empty(Model):
    empty = True


def error_of(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except northbridge.NorthbridgeError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def said_of(attempt: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        attempt()
    return [str(each.message) for each in said if "tensor_parallel_size" in str(each.message)]


def in_other_ways(distance: Callable[[list[float]], float]) -> dict[str, Any]:
    """Train in the ways that the conformance suite's class FSDP does not know."""
    found: dict[str, Any] = {"fsdp": distance(fit("fsdp")[0].losses)}
    linear: Any = {nn.Linear}
    copied = FSDPStrategy(sharding_strategy="NO_SHARD", auto_wrap_policy=linear)
    found["NO_SHARD"] = distance(fit(copied)[0].losses)
    found["flat"] = distance(fit(FSDPStrategy(use_orig_params=False), model=OfTrainer)[0].losses)
    checkpointed = FSDPStrategy(auto_wrap_policy=linear, activation_checkpointing_policy=linear)
    found["activation checkpointing"] = distance(fit(checkpointed)[0].losses)
    offloaded, trainer = fit("fsdp_cpu_offload")
    found["offload"] = distance(offloaded.losses)
    assert {each.device.type for each in trainer.strategy.model.parameters()} == {"cpu"}
    reference, path = fabric_losses("ddp", range(2), Path("fabric.ckpt")), Path("fabric-full.ckpt")
    halves = [
        fabric_losses(FSDPStrategyOfFabric(state_dict_type="full", auto_wrap_policy=linear), epochs, path, empty)
        for epochs, empty in ((range(1), False), (range(1, 2), True))
    ]
    both = zip([*halves[0], *halves[1]], reference, strict=True)
    found["fabric"] = max(abs(one - other) for one, other in both)
    return found


FSDPStrategyOfFabric: Any = import_module("lightning.fabric.strategies").FSDPStrategy


def mixed() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for precision in ("bf16-mixed", "16-mixed", "bf16-true"):
        module, trainer = fit("fsdp", precision=precision)
        plugin = trainer.precision_plugin
        scaler = getattr(plugin, "scaler", None)
        found[precision] = [
            sorted(str(dtype) for dtype in module.dtypes),
            type(plugin).__name__,
            plugin.device_type,
            scaler and [type(scaler).__name__, scaler._device, scaler.get_scale() > 1],
            module.losses[-1] < module.losses[0],
        ]
    return found


def by_names(distance: Callable[[list[float]], float]) -> dict[str, Any]:
    """Train by the names that the vendor's package for Lightning had."""
    vendor: Any = import_module(f"northbridge_{ACCELERATOR}")
    strategy: Any = getattr(vendor, f"{ACCELERATOR.upper()}FSDPStrategy")
    precision: Any = getattr(vendor, f"{ACCELERATOR.upper()}FSDPPrecision")
    by_name, trainer = fit(strategy(sharding_strategy="SHARD_GRAD_OP", cpu_offload=False, state_dict_type="full"))
    by_alias, _ = fit(f"{ACCELERATOR}_fsdp")
    in_bf16, mixed = fit(strategy(precision_plugin=precision("bf16-mixed")))
    return {
        "distances": [distance(by_name.losses), distance(by_alias.losses)],
        "known": [isinstance(trainer.strategy, strategy), isinstance(mixed.precision_plugin, precision)],
        "way": [trainer.strategy.sharding_strategy.name, *sorted(str(dtype) for dtype in in_bf16.dtypes)],
    }


def in_all_ways(distance: Callable[[list[float]], float]) -> dict[str, Any]:
    sizes: Any = {"data_parallel_size": DEVICES, "tensor_parallel_size": 1}
    pairs: Any = {"data_parallel_size": DEVICES // 2, "tensor_parallel_size": 2}
    empty, _ = fit("fsdp", model=Empty)
    return {
        "ways": in_other_ways(distance),
        "mixed": mixed(),
        "meta": [len(empty.losses), empty.losses[-1] < empty.losses[0]],
        "blocks": distance(fit(ModelParallelStrategy(**sizes), model=Blocks)[0].losses),
        "not averaged": error_of(lambda: fit(ModelParallelStrategy(**sizes), model=OneLayer)),
        "not split": said_of(lambda: fit(ModelParallelStrategy(**pairs), model=Blocks)),
        "not sharded": error_of(lambda: fit(ModelParallelStrategy(), model=Blocks)),
    }


def main() -> None:
    reference, trainer = fit("ddp")

    def distance(losses: list[float]) -> float:
        assert len(losses) == len(reference.losses)
        return float(max(abs(one - other) for one, other in zip(losses, reference.losses, strict=True)))

    found = in_all_ways(distance) if ACCELERATOR == "cpu_sim" else by_names(distance)
    if trainer.is_global_zero:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
