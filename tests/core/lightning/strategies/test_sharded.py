"""FSDP2 and torch's first FSDP by their names: what a host makes of them before it trains."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import Build, Claims, killed_while_writing, of_fabrics, refusal
from tests.scripts import run_forked
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.fsdp import ShardingStrategy
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

from northbridge.capabilities import Claim, no
from northbridge.errors import ArgumentsError, CheckpointError, CollectiveError, UnsupportedError
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import Namespace
from northbridge.lightning.strategies.sharded import _write

pytestmark = pytest.mark.usefixtures("chip")


def stock(namespace: Namespace, kind: str = "ModelParallelStrategy", **arguments: Any) -> Any:
    """Lightning's strategy, as its user makes it."""
    if kind == "ModelParallelStrategy" and not namespace.is_trainer:
        arguments["parallelize_fn"] = lambda model, mesh: model
    return getattr(namespace.module("strategies"), kind)(**arguments)


@pytest.mark.parametrize("kind", ["ModelParallelStrategy", "FSDPStrategy"])
def test_another_library_is_refused(namespace: Namespace, build: Build, kind: str) -> None:
    with pytest.raises(CollectiveError, match=r"process_group_backend='gloo': .* needs 'simccl'"):
        build(accelerator="cpu_sim", devices=2, strategy=stock(namespace, kind, process_group_backend="gloo"))


# --- FSDP2 and tensor parallel


def test_16_mixed_is_refused_by_lightning(namespace: Namespace, build: Build) -> None:
    """Its scaler knows no sharded gradients."""
    with pytest.raises(ValueError, match=r"does not support .*precision='16-mixed'"):
        build(accelerator="cpu_sim", devices=2, strategy=stock(namespace), precision="16-mixed")


class Size(int):
    """A dimension of a mesh."""

    def size(self) -> int:
        return int(self)


class Sharded(nn.Linear):
    """A stand-in for a layer of torch's FSDP2, which records how it must reduce."""

    told: bool | None = None

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        self.told = enable


@pytest.mark.parametrize(("averages", "told"), [(True, None), (False, True)])
def test_fsdp2_adds_up_if_the_library_has_no_average(
    namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch, averages: bool, told: bool | None
) -> None:
    strategy = build(accelerator="cpu_sim", devices=2, strategy=stock(namespace)).strategy
    monkeypatch.setattr(type(strategy.backend.collective), "averages", averages)
    layer = Sharded(2, 2)

    strategy._prepare_fsdp2(nn.Sequential(nn.Linear(2, 2), layer))

    assert layer.told is told


def test_fsdp2_without_streams_is_refused(namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = build(accelerator="cpu_sim", devices=2, strategy=stock(namespace)).strategy
    monkeypatch.setattr(type(strategy.backend.device), "module", ModuleType("torch.cpu_sim"))
    strategy._prepare_fsdp2(nn.Linear(2, 2))  # tensor parallel needs none

    assert refusal(UnsupportedError, strategy._prepare_fsdp2, Sharded(2, 2), capability="sharding") == (
        "'cpu_sim' does not support FSDP2, which needs torch.cpu_sim.Stream. Fix: strategy='ddp', or devices=1"
    )


@of_fabrics
def test_what_a_fabrics_function_leaves_whole_goes_to_the_device(namespace: Namespace, build: Build) -> None:
    strategy = build(accelerator="cpu_sim", devices=1, strategy=stock(namespace)).strategy
    model = nn.BatchNorm1d(2)
    weight = model.weight

    strategy._device_mesh = None
    with pytest.raises(RuntimeError, match="device mesh"):
        strategy.setup_module(model)
    strategy._device_mesh = {"data_parallel": Size(1), "tensor_parallel": Size(1)}
    strategy.setup_module(model)

    assert model.weight is weight
    assert {str(each.device) for each in (*model.parameters(), *model.buffers())} == {"cpu_sim:0"}
    assert torch.equal(weight.cpu(), torch.ones(2))


FULL = "[enforce fail at inline_container.cc:881] . PytorchStreamWriter failed writing file data/0: file write failed"


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (RuntimeError(FULL), "torch could not write all of it: the disk may be full"),
    ],
)
def test_full_disk_of_a_rank_is_named(reason: Exception, said: str) -> None:
    """Another rank may have failed because that one did."""

    def save(_draft: Path) -> None:
        raise CheckpointException("write", {0: (ValueError("no plan"), None), 1: (reason, None)})  # type: ignore[dict-item]

    with pytest.raises(CheckpointError) as raised:
        _write(save, Path("draft"), Path("/saved/last.ckpt"))

    assert str(raised.value).startswith(f"/saved/last.ckpt could not be written: {said}, says rank 1; an old file is")
    assert not isinstance(raised.value.__cause__, CheckpointException)  # its text is a traceback of each rank


def test_error_of_the_program_stays_as_it_is() -> None:
    def save(_draft: Path) -> None:
        raise CheckpointException("plan", {0: (ValueError("no plan"), None)})  # type: ignore[dict-item]

    with pytest.raises(CheckpointException, match="no plan"):
        _write(save, Path("draft"), Path("last.ckpt"))


# --- FSDP


def test_fsdps_name_means_ours(namespace: Namespace, build: Build) -> None:
    strategy = build(accelerator="cpu_sim", devices=2, strategy="fsdp").strategy
    offloads = build(accelerator="cpu_sim", devices=2, strategy="fsdp_cpu_offload").strategy

    assert type(strategy) is type(offloads) is classes(namespace).fsdp
    assert (strategy.cpu_offload.offload_params, offloads.cpu_offload.offload_params) == (False, True)
    assert str(strategy.root_device) == "cpu_sim:0"


def test_fsdp_becomes_ours_and_keeps_its_arguments(namespace: Namespace, build: Build) -> None:
    given = stock(
        namespace, "FSDPStrategy", sharding_strategy="SHARD_GRAD_OP", state_dict_type="full", limit_all_gathers=False
    )

    strategy = build(accelerator="cpu_sim", devices=2, strategy=given).strategy

    assert strategy is given
    assert type(strategy) is classes(namespace).fsdp
    assert strategy.sharding_strategy is ShardingStrategy.SHARD_GRAD_OP
    assert strategy._torch_arguments["limit_all_gathers"] is False
    assert strategy._torch_arguments["use_orig_params"] is True


@pytest.mark.parametrize("precision", ["32-true", "16-mixed", "16-true", "bf16-mixed", "bf16-true"])
def test_its_precision_is_on_the_chip(namespace: Namespace, build: Build, precision: str) -> None:
    strategy = build(accelerator="cpu_sim", devices=2, strategy="fsdp", precision=precision).strategy
    plugin = strategy.precision_plugin if namespace.is_trainer else strategy.precision

    assert type(plugin) is classes(namespace).fsdp_precision
    assert isinstance(plugin.scaler, ShardedGradScaler) == (precision == "16-mixed")
    if plugin.scaler is not None:
        assert (plugin.scaler._device, plugin.scaler.is_enabled()) == ("cpu_sim", True)
    with plugin.forward_context():
        assert torch.is_autocast_enabled("cpu_sim") == ("mixed" in precision)


@pytest.mark.filterwarnings("ignore:.*CUDA is not available")  # of the scaler that Lightning makes for the user
def test_a_users_own_precision_is_bound_to_the_chip(namespace: Namespace, build: Build) -> None:
    """Unless its scaler is for another device."""
    given = namespace.module("plugins.precision.fsdp").FSDPPrecision("16-mixed")
    foreign = classes(namespace).fsdp_precision("16-mixed", ShardedGradScaler(device="cpu"))

    build(accelerator="cpu_sim", devices=2, strategy="fsdp", plugins=[given])

    assert type(given) is classes(namespace).fsdp_precision
    assert (given.device_type, given.scaler._device) == ("cpu_sim", "cpu_sim")
    with pytest.raises(UnsupportedError, match=r"the GradScaler of .* is for 'cpu', .* leave scaler= out"):
        build(accelerator="cpu_sim", devices=2, strategy="fsdp", plugins=[foreign])


def test_a_scaler_of_the_user_is_kept(namespace: Namespace) -> None:
    """Lightning's class fails if it is given one."""
    scaler = ShardedGradScaler(device="cpu_sim", init_scale=2.0)

    assert classes(namespace).fsdp_precision("16-mixed", scaler).scaler is scaler
    with pytest.raises(ArgumentsError, match="only '16-mixed' uses scaler="):
        classes(namespace).fsdp_precision("bf16-mixed", scaler)


@pytest.mark.parametrize("by_user", [False, True])
def test_scaler_uses_the_group_of_its_step(
    namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch, by_user: bool
) -> None:
    """As where torch's module was imported while another group was there, such as Ray's, or the first of two."""
    earlier = object()
    defaults: Any = ShardedGradScaler.__init__.__defaults__
    monkeypatch.setattr(ShardedGradScaler.__init__, "__defaults__", (*defaults[:-1], earlier))
    scaler = ShardedGradScaler(device="cpu_sim", init_scale=2.0) if by_user else None
    given = classes(namespace).fsdp_precision("16-mixed", scaler)

    build(accelerator="cpu_sim", devices=2, strategy="fsdp", plugins=[given])

    assert given.scaler.process_group is None
    assert (given.scaler is scaler) == by_user


@pytest.mark.parametrize("precision", ["64-true", "transformer-engine"])
def test_a_precision_that_it_lacks_is_refused(namespace: Namespace, build: Build, precision: str) -> None:
    said = refusal(UnsupportedError, build, accelerator="cpu_sim", devices=2, strategy="fsdp", precision=precision)

    assert said == (
        f"FSDP has no precision={precision!r}. Fix: one of 32-true, 16-mixed, 16-true, bf16-mixed, bf16-true"
    )


@pytest.mark.parametrize("devices", [1, 2])
def test_it_is_refused_where_the_chip_denies_it(
    namespace: Namespace, build: Build, claims: Claims, devices: int
) -> None:
    """And tried where it does not know."""
    asked: dict[str, Any] = {"accelerator": "cpu_sim", "devices": devices, "strategy": "fsdp"}
    claims(fsdp=Claim("unknown"))
    assert type(build(**asked).strategy) is classes(namespace).fsdp
    claims(fsdp=no("its storages cannot be emptied"))

    assert refusal(UnsupportedError, build, capability="fsdp", **asked) == (
        "'cpu_sim' does not support torch's FSDP: its storages cannot be emptied. Fix: strategy='ddp', or FSDP2 by"
        " ModelParallelStrategy()"
    )


def test_a_dtype_that_the_library_lacks_is_refused(
    namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategy = build(accelerator="cpu_sim", devices=2, strategy="fsdp", precision="bf16-mixed").strategy
    monkeypatch.setattr(type(strategy.backend.collective), "carried_dtypes", frozenset({"float32"}))

    with pytest.raises(CollectiveError, match=r"'simccl' cannot send bfloat16. Fix: another prec"):
        strategy._reject_module(nn.Linear(1, 1))


# --- Checkpoints of which each rank writes a part: whole or not at all, and one error on every rank


USER = """
import os, resource, signal, sys
from pathlib import Path
import torch
from torch.distributed.fsdp import fully_shard

host, what, distributed = sys.argv[1], sys.argv[2], sys.argv[3] == "shards"

class Net(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))

def spread(net, mesh):
    for part in (net[0], net[2], net):
        fully_shard(part, mesh=mesh["data_parallel"])
    return net

def say(rank, words):
    os.write(1, f"rank {rank}: {words}\\n".encode())

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

def save_often(rank, save):
    name = "saved.ckpt"
    yield  # for a step of training, here and below
    save(name)
    if rank == 0:
        (Path(name) / "notes.txt").write_text("the user's own") if distributed else None
    yield
    save(name)  # in place of the first
    yield
    writes = rank == (1 if distributed else 0)
    if what == "killed":
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    if writes:
        limit(12000)  # less than a part of the model, and more than what is printed
    try:
        save(name)
    except Exception as error:
        say(rank, f"{type(error).__name__}: {error}")
    if writes:
        limit(resource.RLIM_INFINITY)
    yield
    save("after.ckpt")
    say(rank, "went on")

if __name__ == "__main__":
    settings = dict(accelerator="cpu_sim", devices=2)
    if host == "Trainer":
        from lightning.pytorch import LightningModule, Trainer
        from lightning.pytorch.strategies import ModelParallelStrategy

        class Model(LightningModule):
            def __init__(self):
                super().__init__()
                self.net = Net()

            def configure_model(self):
                spread(self.net, self.device_mesh)

            def training_step(self, batch, index):
                return self.net(batch).square().mean()

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), 0.1)

            def on_train_start(self):
                self.saving = save_often(self.global_rank, self.trainer.save_checkpoint)
                next(self.saving)

            def on_train_batch_end(self, *_):
                next(self.saving, None)

        strategy = ModelParallelStrategy(2, 1, save_distributed_checkpoint=distributed)
        quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
        trainer = Trainer(strategy=strategy, max_steps=4, **settings, **quiet)
        trainer.fit(Model(), torch.utils.data.DataLoader(torch.randn(8, 64)))
    else:
        from lightning.fabric import Fabric
        from lightning.fabric.strategies import ModelParallelStrategy

        strategy = ModelParallelStrategy(spread, 2, 1, save_distributed_checkpoint=distributed)
        fabric = Fabric(strategy=strategy, **settings)
        fabric.launch()
        net = fabric.setup_module(Net())
        optimizer = fabric.setup_optimizers(torch.optim.SGD(net.parameters(), 0.1))

        for _ in save_often(fabric.global_rank, lambda name: fabric.save(name, {"net": net, "optimizer": optimizer})):
            loss = net(torch.randn(2, 64, device=fabric.device)).square().mean()
            fabric.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
"""


def run(folder: Path, *arguments: str) -> tuple[int, list[str], str]:
    """Return the exit code, what the ranks said, and everything."""
    (folder / "train.py").write_text(USER)
    ran = run_forked(folder / "train.py", *arguments, folder=folder)
    (folder / "printed.txt").unlink()
    return ran.status, sorted(line for line in ran.said.splitlines() if line[:5] == "rank "), ran.said


def opened(checkpoint: Path) -> dict[str, Any]:
    if checkpoint.is_file():
        found: dict[str, Any] = torch.load(checkpoint, weights_only=True)
        return found
    whole = checkpoint.with_suffix(".whole")
    dcp_to_torch_save(checkpoint, whole)
    return {**torch.load(whole), **torch.load(checkpoint / "meta.pt", weights_only=True)}


@pytest.mark.parametrize("host", ["Trainer", "Fabric"])
@pytest.mark.parametrize("way", ["shards", "one file"])
def test_a_part_that_cannot_be_written_is_every_ranks_error(tmp_path: Path, host: str, way: str) -> None:
    killed_while_writing(tmp_path / "saved.ckpt", shards=way == "shards")  # which the first save removes
    code, said, everything = run(tmp_path, host, "refused", way)

    assert code == 0, everything
    writer = 1 if way == "shards" else 0
    assert len(said) == 4, everything
    assert said[1] == "rank 0: went on"
    assert said[3] == "rank 1: went on"
    for line in (said[0], said[2]):
        assert "CheckpointError: " in line
        assert "saved.ckpt could not be written: " in line
        assert "File too large" in line or "the disk may be full" in line
        assert "an old file is untouched. Fix: make room in" in line
    assert f"rank {writer}" in said[2 - 2 * writer]  # the other is told who could not
    assert sorted(file.name for file in tmp_path.iterdir()) == ["after.ckpt", "saved.ckpt", "train.py"]
    saved, after = opened(tmp_path / "saved.ckpt"), opened(tmp_path / "after.ckpt")
    assert saved.keys() == after.keys()
    if way == "shards":
        assert (tmp_path / "saved.ckpt" / "notes.txt").read_text() == "the user's own"
    if host == "Trainer":
        assert (saved["global_step"], after["global_step"]) == (2, 4)


def test_rank_that_dies_while_writing_leaves_the_old(tmp_path: Path) -> None:
    code, said, everything = run(tmp_path, "Trainer", "killed", "shards")

    assert code != 0
    assert "rank 1: went on" not in said
    assert "rank 1" in everything
    assert [file.name for file in tmp_path.iterdir() if not file.name.startswith(".")] == ["saved.ckpt", "train.py"]
    assert opened(tmp_path / "saved.ckpt")["global_step"] == 2
