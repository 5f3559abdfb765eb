"""Training under torchrun: a node that is lost, and one that joins. The suite kills a rank (Restarts)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from northbridge_conformance.runs.processes import reserve_port

USER = """
import os, time
from pathlib import Path
import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

nodes, ranks = int(os.environ["GROUP_WORLD_SIZE"]), int(os.environ["WORLD_SIZE"])
last = Path("checkpoints/last.ckpt")
resumes = last.exists()

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 2)

    def training_step(self, batch, index):
        if self.global_rank == 0:
            waited = int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9  # for a processor
            os.write(1, f"step {self.global_step} nodes {nodes} {time.time() - waited}\\n".encode())
        if not resumes and self.global_step == 6 and self.global_rank == 1:
            os.write(1, b"waits\\n")
            time.sleep(600)
        while nodes == 1 and self.global_step == 12 and not self.trainer.received_sigterm:
            time.sleep(0.1)
        return self.net(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-2)

seed_everything(1)
trainer = Trainer(
    accelerator="cpu_sim",
    devices=ranks // nodes,
    num_nodes=nodes,
    max_steps=20,
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    callbacks=[ModelCheckpoint(dirpath="checkpoints", every_n_train_steps=4, save_last=True)],  # each epoch
)
model = Model()
data = TensorDataset(torch.arange(256.0).reshape(32, 8) / 256)
rows = DistributedSampler(data, ranks, int(os.environ["RANK"]), shuffle=False)  # 8 rows a step, on any number of ranks
trainer.fit(model, DataLoader(data, batch_size=8 // ranks, sampler=rows), ckpt_path=last if resumes else None)
if trainer.is_global_zero:
    torch.save({name: each.cpu() for name, each in model.state_dict().items()}, "weights.pt")
"""
LIMIT_S = 90.0


class Node:
    """torchrun on one of the nodes, which share this machine."""

    def __init__(self, folder: Path, name: str, port: int, *, is_host: bool) -> None:
        self.said = folder / name
        conf = f"is_host={int(is_host)},last_call_timeout=1,keep_alive_interval=1"
        meeting = ("--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", f"--rdzv-conf={conf}")
        torchrun = ("-m", "torch.distributed.run", "--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=3", *meeting)
        with self.said.open("wb") as output:
            self.agent = subprocess.Popen(
                [sys.executable, *torchrun, "--local-addr=127.0.0.1", "train.py"],
                cwd=folder,
                env={**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "OMP_NUM_THREADS": "1"},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Return the first match in what the node prints."""
        deadline = time.monotonic() + LIMIT_S
        while (match := re.search(pattern, self.said.read_text())) is None:
            assert self.agent.poll() is None, self.said.read_text()
            assert time.monotonic() < deadline, self.said.read_text()
            time.sleep(0.05)
        return match

    def kill(self) -> None:
        """End its processes without a word, as a power failure does."""
        for process in _family(self.agent.pid):
            os.kill(process, signal.SIGKILL)
        self.agent.wait()


def _family(process: int) -> list[int]:
    children = [
        int(each) for file in Path(f"/proc/{process}/task").glob("*/children") for each in file.read_text().split()
    ]
    return [process, *(each for child in children for each in _family(child))]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Node]]:
    """Start torchrun on a node; the first one holds the rendezvous."""
    (tmp_path / "train.py").write_text(USER)
    port = reserve_port()
    started: list[Node] = []

    def starting(name: str) -> Node:
        started.append(Node(tmp_path, name, port, is_host=not started))
        return started[-1]

    yield starting
    for node in started:
        if node.agent.poll() is None:
            node.kill()


def trained_alone() -> dict[str, torch.Tensor]:
    """Return the weights after the same 20 batches of 8 on the CPU, by torch alone."""
    torch.manual_seed(1)
    net = torch.nn.Linear(8, 2)
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    rows = torch.arange(256.0).reshape(32, 8) / 256
    for step in range(20):
        optimizer.zero_grad()
        net(rows[step % 4 * 8 :][:8]).square().mean().backward()
        optimizer.step()
    return {f"net.{name}": each for name, each in net.state_dict().items()}


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_a_node_leaves_and_another_joins(tmp_path: Path, start: Callable[[str], Node]) -> None:
    first, second = start("first"), start("second")
    second.wait_for("waits")
    killed = time.time()
    second.kill()

    alone = first.wait_for(r"step (\d+) nodes 1 (\d+\.\d+)")
    assert alone[1] == "4"  # the last checkpoint
    assert float(alone[2]) - killed <= 30  # less what the new process has waited for a processor of a busy machine

    first.wait_for("step 12 nodes 1")
    third = start("third")
    first.wait_for("max_steps=20")
    together = re.findall(r"step (\d+) nodes (\d)", first.said.read_text())
    assert together[together.index(("12", "1")) + 1] == ("12", "2")
    assert [node.agent.wait(LIMIT_S) for node in (first, third)] == [0, 0]

    weights: dict[str, torch.Tensor] = torch.load(tmp_path / "weights.pt", weights_only=True)
    torch.testing.assert_close(weights, trained_alone())
