"""Train a model that is sharded over the ranks, save its shards, and resume from them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy

import northbridge
from northbridge.lightning.namespaces import Stock
from northbridge_conformance.rank_programs.precision import dtypes_inside
from northbridge_conformance.runs.findings import write
from northbridge_conformance.runs.fingerprints import fingerprint
from northbridge_conformance.runs.hosts import build, combine, fabric, is_trainer, lightnings, trainer
from northbridge_conformance.runs.models import adam, pictures
from northbridge_conformance.runs.ranks import attempt
from northbridge_conformance.runs.scenario import Scenario

CHECKPOINT = "shards.ckpt"
"""The folder with each rank's shards after the first epoch."""

_EPOCHS = 2
_BATCH = 16
_SAMPLES = 3 * _BATCH
_LAYOUTS = {2: ((2, 1), (1, 2)), 4: ((2, 2),)}
"""For each number of ranks: the sizes of the data-parallel and of the tensor-parallel dimension."""


def perform(scenario: Scenario, folder: Path) -> None:
    """Train the first epoch, save, and resume for the second; with ``scenario.resume``, only resume from there."""
    assert isinstance(scenario.devices, int)
    one = _fit if is_trainer(scenario.namespace) else _loop
    found: dict[str, Any] = {}
    if scenario.resume:
        checkpoint = Path(scenario.resume) / CHECKPOINT
        strategy = _strategy(scenario, (scenario.devices, 1), checkpoint)
        found["taken up"] = one(scenario, folder, strategy, checkpoint, range(1, _EPOCHS))["losses"]
    else:
        for layout in _LAYOUTS[scenario.devices]:
            for way in ("shards", "one file"):
                checkpoint = folder / (CHECKPOINT if way == "shards" else "whole.ckpt")
                first, second = (
                    one(scenario, folder, _strategy(scenario, layout, checkpoint), checkpoint, epochs)
                    for epochs in (range(1), range(1, _EPOCHS))
                )
                found |= first | {f"{layout[0]} x {layout[1]}, {way}": first["losses"] + second["losses"]}
        found["inside"] = attempt(partial(_dtypes_inside, scenario, folder, one))
    found["alone"] = alone()  # last: a backward pass before the chip is loaded may leave autograd unable to serve it
    write(folder, "sharding taken up" if scenario.resume else "sharding", torch.distributed.get_rank(), found)


def alone() -> list[float]:
    """Return the losses of one process that trains the whole batches on the CPU."""
    net = build("mlp")
    optimizer = _adam(net)
    losses = []
    for _ in range(_EPOCHS):
        for images, labels in batches():
            loss = cross_entropy(net(images), labels)
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            losses.append(loss.item())
    return losses


def _dtypes_inside(scenario: Scenario, folder: Path, one: Any) -> list[str]:
    """Return the dtypes of the layers' results in ``bf16-mixed``; [] if the chip denies it."""
    if northbridge.load(scenario.accelerator).present_capabilities().bfloat16.denied:
        return []
    layout, checkpoint = _LAYOUTS[scenario.ranks][0], folder / "mixed.ckpt"
    with dtypes_inside() as inside:
        one(scenario, folder, _strategy(scenario, layout, checkpoint), checkpoint, range(1), precision="bf16-mixed")
    return sorted(inside)


def batches() -> Any:
    """Return the loader of the whole batches, of which each rank trains its rows."""
    return torch.utils.data.DataLoader(pictures(_SAMPLES), batch_size=_BATCH)


def _spread(net: Any, mesh: Any) -> Any:
    """Split each hidden layer between the ranks of a row of ``mesh``, and shard all layers between its rows."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    if mesh["tensor_parallel"].size() > 1:
        parallelize_module(net, mesh["tensor_parallel"], {"1": ColwiseParallel(), "3": RowwiseParallel()})
    if mesh["data_parallel"].size() > 1:
        for part in (net[1], net[3], net):
            fully_shard(part, mesh=mesh["data_parallel"])
    return net


def _strategy(scenario: Scenario, layout: tuple[int, int], checkpoint: Path) -> Any:
    stock = lightnings(scenario, "strategies.model_parallel").ModelParallelStrategy
    arguments: dict[str, Any] = {
        "data_parallel_size": layout[0],
        "tensor_parallel_size": layout[1],
        "save_distributed_checkpoint": checkpoint.name == CHECKPOINT,
    }
    if not is_trainer(scenario.namespace):
        arguments["parallelize_fn"] = _spread
    return stock(**arguments)


def _adam(net: nn.Module) -> torch.optim.Optimizer:
    # One parameter at a time: torch's foreach kernels do not mix sharded tensors with others.
    return adam(net.parameters(), foreach=False)


def _fit(
    scenario: Scenario, folder: Path, strategy: Any, checkpoint: Path, epochs: range, precision: str = "32-true"
) -> dict[str, Any]:
    module = combine(scenario.namespace, _Sharded)()
    fit(scenario, folder, module, checkpoint, epochs, strategy=strategy, precision=precision)
    return {"losses": module.losses, **_facts(module.net)}


def fit(scenario: Scenario, folder: Path, module: Any, checkpoint: Path, epochs: range, **options: Any) -> Any:
    """Train the first epochs and save, or resume for later ones; return the Trainer."""
    host = trainer(scenario, folder, max_epochs=epochs.stop, use_distributed_sampler=False, **options)
    host.fit(module, batches(), ckpt_path=checkpoint if epochs.start else None)
    if not epochs.start:
        host.save_checkpoint(checkpoint)
    return host


def _loop(
    scenario: Scenario, _folder: Path, strategy: Any, checkpoint: Path, epochs: range, precision: str = "32-true"
) -> dict[str, Any]:
    host = fabric(scenario, strategy=strategy, precision=precision)
    host.launch()
    net: Any = host.setup_module(build("mlp"))
    optimizer: Any = host.setup_optimizers(_adam(net))
    state = {"net": net, "optimizer": optimizer, "epoch": epochs.start}
    if epochs.start:
        host.load(checkpoint, state)
        assert state["epoch"] == epochs.start
    losses = []
    for _ in epochs:
        for batch in host.setup_dataloaders(batches(), use_distributed_sampler=False):
            images, labels = _mine(batch, host.strategy.device_mesh)
            loss = cross_entropy(net(images), labels)
            optimizer.zero_grad()
            host.backward(loss)
            optimizer.step()
            losses.append(float(host.all_reduce(loss.detach(), reduce_op="mean")))
    if not epochs.start:
        host.save(checkpoint, {**state, "epoch": epochs.stop})
    return {"losses": losses, **_facts(net)}


def _mine(batch: Any, mesh: Any) -> Any:
    """Return this rank's rows of a batch."""
    among, rank = mesh["data_parallel"].size(), mesh["data_parallel"].get_local_rank()
    return [each.chunk(among)[rank] for each in batch]


def _facts(net: nn.Module) -> dict[str, Any]:
    parameters = {name.removeprefix("_forward_module."): each for name, each in net.named_parameters()}
    shards: Any = [each for each in parameters.values() if isinstance(each, DTensor)]
    return {
        "weights": fingerprint({name: _whole(each).cpu() for name, each in parameters.items()}),
        "held": sum(each.to_local().numel() for each in shards),
        "in all": sum(each.numel() for each in shards),
        "devices": sorted({str(each.device) for each in parameters.values()}),
    }


def _whole(tensor: Any) -> Tensor:
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


class _Sharded(Stock):  # type: ignore[misc]  # of Lightning's module
    def __init__(self) -> None:
        super().__init__()
        self.net = build("mlp")
        self.losses: list[float] = []

    def configure_model(self) -> None:
        _spread(self.net, self.device_mesh)

    def training_step(self, batch: Any, batch_index: int) -> Tensor:
        images, labels = _mine(batch, self.device_mesh)
        loss = cross_entropy(self.net(images), labels)
        self.losses.append(float(self.trainer.strategy.reduce(loss.detach(), reduce_op="mean")))
        return loss

    def configure_optimizers(self) -> Any:
        return _adam(self)
