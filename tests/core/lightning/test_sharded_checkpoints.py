"""Checkpoints of which each rank writes a part: whole or not at all, and one error on every rank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.core.lightning.conftest import killed_while_writing
from tests.scripts import run_forked
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

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
