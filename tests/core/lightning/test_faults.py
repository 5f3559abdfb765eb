"""Trainings of two ranks that are stopped, of which one process is killed, or whose chip fails as planned.

The suite kills the last rank that is a script (KilledRank), and sends SIGTERM to one rank alone (Preemption).
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
import torch
from tests.scripts import fork_script

USER = """
import os, signal, sys
from datetime import timedelta
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader, TensorDataset

signal.signal(signal.SIGINT, signal.default_int_handler)  # which the tests may run without, in the background
strategy, kind, place, rank = *sys.argv[1:4], int(sys.argv[4])
if kind:
    strategy = DDPStrategy(timeout=timedelta(seconds=20 if kind in ("hang", "lose") else 40))  # these two wait it out
OPERATIONS = {"forward": "addmm", "collective": "all_reduce"}

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)

    def plan(self, here, step):
        if place == here and self.global_step == step and self.global_rank == rank:
            from northbridge_cpu_sim import Fault, planned_faults

            more = {"op": OPERATIONS[place]} if place in OPERATIONS else {}
            more |= {"seconds": 0.5} if kind == "slow" else {}
            self.plan_of_faults = planned_faults(Fault(kind, **more))  # kept: it ends with the object
            self.plan_of_faults.__enter__()

    def on_fit_start(self):
        self.plan("start", 0)

    def on_save_checkpoint(self, checkpoint):
        self.plan("checkpoint", 4)

    def training_step(self, batch, index):
        if index == 3:
            os.write(1, f"rank {self.global_rank} trains as process {os.getpid()}\\n".encode())
        self.plan("forward", 3)
        self.plan("collective", 3)
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 1e-3)

if __name__ == "__main__":
    trainer = Trainer(
        accelerator="cpu_sim",
        devices=2,
        strategy=strategy,
        max_epochs=-1,
        max_steps=6 if kind else -1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[ModelCheckpoint(dirpath="checkpoints", every_n_train_steps=1, save_top_k=-1 if kind else 1)],
    )
    trainer.fit(Model(), DataLoader(TensorDataset(torch.randn(4096, 8)), batch_size=2))
"""

LIMIT_S = 60.0
"""The limit for the processes' end on a busy machine; torch's own timeout is half an hour."""

Whom = Literal["all", "first", "rank 0", "rank 1"]


@dataclass(frozen=True)
class End:
    """The end of a training."""

    code: int
    said: str
    """Without what the planned faults say of themselves."""

    checkpoints: list[Path]
    """The oldest first."""

    drafts: list[Path]
    """What a save has left that was not put in place."""


def train(
    folder: Path, strategy: str, *fault: str, told: Callable[[int, str], object] = lambda *_: None, limit: float = 150.0
) -> End:
    """Run the training, and call ``told`` with the first process and with each line that is printed."""
    (folder / "train.py").write_text(USER)
    reading, writing = os.pipe()
    with open(writing, "wb") as output:
        arguments = fault or ("", "", "0")
        first = fork_script(folder / "train.py", strategy, *arguments, folder=folder, output=output)
    began, said = time.monotonic(), list[str]()
    watchdog = threading.Timer(limit, os.killpg, (first.pid, signal.SIGKILL))
    watchdog.start()
    # The pipe ends when no process holds it any more: no rank, and nothing that a rank has left behind.
    with open(reading, encoding="utf-8", errors="replace") as pipe:
        for line in pipe:
            said.append(line)
            told(first.pid, line)
    watchdog.cancel()
    assert time.monotonic() - began < limit, f"a process was still there after {limit:g} s:\n{''.join(said)}"
    files = sorted((folder / "checkpoints").glob("*"), key=lambda path: path.stat().st_mtime)
    checkpoints = [file for file in files if not file.name.startswith(".")]
    lines = "".join(line for line in said if "planned fault:" not in line)
    return End(first.wait(), lines, checkpoints, [file for file in files if file not in checkpoints])


def stop(folder: Path, strategy: str, whom: Whom, signum: signal.Signals) -> End:
    """Send a signal when both ranks train; nothing outlives it for long, and the checkpoints are whole."""
    processes: dict[str, int] = {}
    sent: list[float] = []

    def send(first: int, line: str) -> None:
        processes["first"] = first
        if found := re.fullmatch(r"(rank \d) trains as process (\d+)\n", line):
            processes[found[1]] = int(found[2])
        if not sent and len(processes) == 3:
            sent.append(time.monotonic())
            if whom == "all":
                os.killpg(first, signum)
            else:
                os.kill(processes[whom], signum)

    end = train(folder, strategy, told=send, limit=2 * LIMIT_S)
    assert sent, f"the training never came so far:\n{end.said}"
    seconds = time.monotonic() - sent[0]
    assert seconds < LIMIT_S, f"a process outlived the signal by {seconds:.0f} s:\n{end.said}"
    assert end.checkpoints
    for file in end.checkpoints:
        assert "state_dict" in torch.load(file, weights_only=True)
    return end


@pytest.mark.parametrize(
    ("strategy", "whom"), [("ddp", "all"), ("ddp", "rank 0"), ("ddp_spawn", "all"), ("ddp_spawn", "first")]
)
def test_ctrl_c_ends_every_rank(tmp_path: Path, strategy: str, whom: Whom) -> None:
    end = stop(tmp_path, strategy, whom, signal.SIGINT)

    assert end.code == 1
    assert "Detected KeyboardInterrupt" in end.said
    assert not end.drafts


def test_sigterm_ends_script_ranks_after_the_batch(tmp_path: Path) -> None:
    end = stop(tmp_path, "ddp", "all", signal.SIGTERM)

    assert "rank 1 received SIGTERM and ends after this batch" in end.said
    assert "Error" not in end.said
    assert not end.drafts


def test_sigterm_of_a_spawned_rank_ends_its_parent(tmp_path: Path) -> None:
    end = stop(tmp_path, "ddp_spawn", "rank 0", signal.SIGTERM)

    assert end.code == 1
    assert "rank 0 received SIGTERM and ends after this batch" in end.said


def test_killed_first_rank_ends_the_other_and_says_why(tmp_path: Path) -> None:
    end = stop(tmp_path, "ddp", "rank 0", signal.SIGKILL)

    assert end.code != 0
    # The last is from Lightning, which looks every five seconds after the scripts that it started.
    assert re.search(r"simccl's .* failed|Connection (reset|closed) by peer|Child process .* terminated", end.said)


def test_killed_spawned_rank_ends_the_others(tmp_path: Path) -> None:
    end = stop(tmp_path, "ddp_spawn", "rank 1", signal.SIGKILL)

    assert end.code == 1
    assert re.search(r"simccl's .* failed|Connection (reset|closed) by peer|process 1 terminated", end.said)
    if "process 1 terminated" in end.said:
        assert re.search(r"^rank 1 \(process \d+\) was killed by SIGKILL$", end.said, flags=re.M)


def test_spawned_ranks_do_not_outlive_their_parent(tmp_path: Path) -> None:
    assert stop(tmp_path, "ddp_spawn", "first", signal.SIGKILL).code == -signal.SIGKILL


SURVIVED = ("slow", "corrupt")
ENDING = ("kill", "raise")
"""These at each place; the others where the ranks meet, and where a checkpoint is written. `make soak` draws all."""

RANKS = {"start": 1, "forward": 1, "collective": 1, "checkpoint": 0}


@pytest.mark.parametrize(
    ("kind", "place"),
    [(kind, place) for kind in ENDING for place in RANKS]
    + [(kind, place) for kind in ("slow", "oom", "corrupt", "lose") for place in ("collective", "checkpoint")]
    + [("hang", "collective"), ("hang", "checkpoint")],
)
def test_planned_fault_is_survived_or_told(tmp_path: Path, kind: str, place: str) -> None:
    """And the newest checkpoint opens."""
    rank = RANKS[place]

    end = train(tmp_path, "ddp", kind, place, str(rank))

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
