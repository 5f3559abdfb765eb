"""Models that are sharded over several devices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy

import northbridge
from northbridge.lightning.namespaces import NAMESPACES, Stock
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import LIMIT_S, RunResult, run
from northbridge_conformance.runs.comparison import fingerprint, tolerance
from northbridge_conformance.runs.hosts import build, combine, fabric, is_trainer, module_of, trainer
from northbridge_conformance.runs.models import adam, pictures
from northbridge_conformance.runs.processes import environ_of_runs, start
from northbridge_conformance.runs.scenario import Scenario, reference, write
from northbridge_conformance.suite import FABRICS, TRAINERS, NamespaceSuite, Runs, Steps, always, in_each
from northbridge_conformance.tests.collective.ranks import attempt
from northbridge_conformance.tests.lightning.ddp import denies
from northbridge_conformance.tests.lightning.precision import dtypes_inside

CHECKPOINT = "shards.ckpt"
"""The folder with each rank's shards after the first epoch."""

_EPOCHS = 2
_BATCH = 16
_SAMPLES = 3 * _BATCH
_LAYOUTS = {2: ((2, 1), (1, 2)), 4: ((2, 2),)}
"""For each number of ranks: the sizes of the data-parallel and of the tensor-parallel dimension."""


def train_sharded(scenario: Scenario, folder: Path) -> None:
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
    write(folder, "train_sharded taken up" if scenario.resume else "train_sharded", torch.distributed.get_rank(), found)


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
    stock = module_of(scenario, "strategies.model_parallel").ModelParallelStrategy
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
    losses = loop(host, net, optimizer, checkpoint, epochs, lambda batch: _mine(batch, host.strategy.device_mesh))
    return {"losses": losses, **_facts(net)}


def loop(
    host: Any, net: Any, optimizer: Any, checkpoint: Path, epochs: range, mine: Callable[[Any], Any]
) -> list[float]:
    """Train the first epochs and save, or resume for later ones; return the losses. A rank has ``mine`` of a batch."""
    state = {"net": net, "optimizer": optimizer, "epoch": epochs.start}
    if epochs.start:
        host.load(checkpoint, state)
        assert state["epoch"] == epochs.start
    losses = []
    for _ in epochs:
        for batch in host.setup_dataloaders(batches(), use_distributed_sampler=False):
            images, labels = mine(batch)
            optimizer.zero_grad()  # before the forward pass, after which SHARD_GRAD_OP has other views of the gradients
            loss = cross_entropy(net(images), labels)
            host.backward(loss)
            optimizer.step()
            losses.append(float(host.all_reduce(loss.detach(), reduce_op="mean")))
    if not epochs.start:
        host.save(checkpoint, {**state, "epoch": epochs.stop})
    return losses


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


SHARDED: Steps = always(reference(train_sharded), f"{__package__}.fsdp:train_with_fsdp")  # which imports this module
"""The steps of the runs that every class about sharded models reads."""


class ShardedModel(NamespaceSuite):
    """Tests of a model that is sharded over ranks, in whichever way."""

    steps: Steps = SHARDED
    step: ClassVar[str]
    """The function whose findings the tests read."""

    def test_each_rank_holds_a_shard_of_the_model_on_its_device(self, backend: str, chip: RunResult) -> None:
        root = northbridge.load(backend).device.root

        for rank, found in enumerate(chip.ranks(self.step)):
            assert found["devices"] == [str(root(rank))]
            assert 0 < found["held"] < found["in all"]

    def test_all_ranks_end_with_equal_weights(self, devices: int, chip: RunResult) -> None:
        weights = chip.each(self.step, "weights")

        assert weights == weights[:1] * devices

    def test_bf16_mixed_computes_in_bfloat16_inside_the_model(self, backend: str, chip: RunResult) -> None:
        dtypes = [] if denies(backend, "bfloat16") else ["torch.bfloat16"]

        for found in chip.ranks(self.step):
            assert found["inside"] == dtypes


class Sharding(ShardedModel):
    """A model sharded over ranks by FSDP2 and tensor parallel learns as one process on the CPU does."""

    runs: Runs = ((TRAINERS[0], 4), (FABRICS[0], 4), (TRAINERS[-1], 2), (FABRICS[-1], 2))
    step = "train_sharded"
    claims: tuple[str, ...] = ("sharding",)
    advice = (
        "FSDP2 gathers parameters into one tensor and reduces gradients by scattering: look at all_gather_into_tensor"
        " and reduce_scatter_tensor, at the Collective's `averages`, and at views of flat memory."
    )

    def test_losses_match_training_in_one_process(self, backend: str, chip: RunResult) -> None:
        for found in chip.ranks(self.step):
            ways = [losses for name, losses in found.items() if " x " in name]
            assert len(ways) >= 2
            for losses in ways:
                assert losses == pytest.approx(found["alone"], abs=tolerance(backend), rel=0)

    def test_sharded_checkpoint_consolidates_into_one_file(
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
        assert fingerprint(named) == chip.each(self.step, "weights")[0]


class Resharding(NamespaceSuite):
    """Two ranks resume from the shards of four."""

    runs: Runs = in_each(TRAINERS[0], FABRICS[0], devices=(4,))
    steps: Steps = SHARDED
    claims: tuple[str, ...] = ("sharding",)
    advice = "Shards are read into views of tensors on the chip: look at copies into parts of a tensor."

    def test_two_ranks_resume_from_the_shards_of_four(
        self, backend: str, namespace: str, environ: dict[str, str], chip: RunResult
    ) -> None:
        resumed = run(Scenario(backend, namespace, (reference(train_sharded),), 2, resume=str(chip.folder)), environ)

        for found in resumed.ranks("train_sharded taken up"):
            rest = found["alone"][-len(found["taken up"]) :]
            assert 0 < len(rest) < len(found["alone"])
            assert found["taken up"] == pytest.approx(rest, abs=tolerance(backend), rel=0)
