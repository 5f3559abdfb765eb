"""Every planned fault of the simulated chip, in a training of two ranks that writes checkpoints."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from tests.scripts import fork_script

USER = """
import sys
from datetime import timedelta
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy
from northbridge_cpu_sim import Fault, planned_faults
from torch.utils.data import DataLoader, TensorDataset

kind, place, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
more = {"seconds": 0.5} if kind == "slow" else {}
timeout = timedelta(seconds=20 if kind in ("hang", "lose") else 40)  # these two wait it out
OPERATIONS = {"forward": "addmm", "collective": "all_reduce"}

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)

    def plan(self, here, step):
        if place == here and self.global_step == step and self.global_rank == rank:
            op = {"op": OPERATIONS[place]} if place in OPERATIONS else {}
            self.plan_of_faults = planned_faults(Fault(kind, **op, **more))  # kept: it ends with the object
            self.plan_of_faults.__enter__()

    def on_fit_start(self):
        self.plan("start", 0)

    def on_save_checkpoint(self, checkpoint):
        self.plan("checkpoint", 4)

    def training_step(self, batch, index):
        self.plan("forward", 3)
        self.plan("collective", 3)
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 1e-3)

if __name__ == "__main__":
    trainer = Trainer(
        accelerator="cpu_sim",
        devices=2,
        strategy=DDPStrategy(timeout=timeout),
        max_steps=6,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[ModelCheckpoint(dirpath="checkpoints", every_n_train_steps=1, save_top_k=-1)],
    )
    trainer.fit(Model(), DataLoader(TensorDataset(torch.randn(64, 8)), batch_size=2))
"""

LIMIT_S = 150.0
SURVIVED = ("slow", "corrupt")


@dataclass(frozen=True)
class End:
    """The end of the training."""

    code: int
    said: str
    """Without what the planned faults say of themselves."""

    checkpoints: list[Path]
    """The oldest first."""


def train(folder: Path, kind: str, place: str, rank: int) -> End:
    (folder / "train.py").write_text(USER)
    reading, writing = os.pipe()
    with open(writing, "wb") as output:
        first = fork_script(folder / "train.py", kind, place, str(rank), folder=folder, output=output)
    began = time.monotonic()
    watchdog = threading.Timer(LIMIT_S, os.killpg, (first.pid, signal.SIGKILL))
    watchdog.start()
    # The pipe ends when no process holds it any more: no rank, and nothing that a rank has left behind.
    with open(reading, encoding="utf-8", errors="replace") as pipe:
        said = pipe.read()
    watchdog.cancel()
    assert time.monotonic() - began < LIMIT_S, f"a process was still there after {LIMIT_S:g} s:\n{said}"
    lines = [line for line in said.splitlines() if "planned fault:" not in line]
    checkpoints = sorted((folder / "checkpoints").glob("*.ckpt"), key=lambda path: path.stat().st_mtime)
    return End(first.wait(), "\n".join(lines), checkpoints)


ENDING = ("kill", "raise")
"""These at each place; the others where the ranks meet, and where a checkpoint is written. `make soak` draws all."""

RANKS = {"start": 1, "forward": 1, "collective": 1, "checkpoint": 0}


@pytest.mark.parametrize(
    ("kind", "place"),
    [(kind, place) for kind in ENDING for place in RANKS]
    + [(kind, place) for kind in ("slow", "oom", "corrupt", "lose") for place in ("collective", "checkpoint")]
    + [("hang", "collective"), ("hang", "checkpoint")],
)
def test_it_is_survived_or_told_and_the_newest_checkpoint_opens(tmp_path: Path, kind: str, place: str) -> None:
    rank = RANKS[place]

    end = train(tmp_path, kind, place, rank)

    if kind in SURVIVED and (kind, place) != ("corrupt", "checkpoint"):  # there it is what the ranks tell each other
        assert end.code == 0, end.said
        assert len(end.checkpoints) == 6
    else:
        assert end.code != 0
        # The second where it is Lightning's launcher that tells of it.
        assert re.search(rf"rank(: | )?{rank}\b", end.said), end.said
    written = [torch.load(file, weights_only=True)["global_step"] for file in end.checkpoints]
    assert written == list(range(1, len(written) + 1))
    assert len(written) >= {"start": 0, "forward": 3, "collective": 3, "checkpoint": 3}[place]
