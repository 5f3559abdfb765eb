"""Remains of a training of two ranks that is stopped, or of which one process is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
import torch

USER = """
import os, signal, sys
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

signal.signal(signal.SIGINT, signal.default_int_handler)  # which the tests may run without, in the background

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 2)

    def training_step(self, batch, index):
        if index == 3:
            os.write(1, f"rank {self.global_rank} trains as process {os.getpid()}\\n".encode())
        return self.layer(batch[0]).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 1e-3)

if __name__ == "__main__":
    checkpoints = ModelCheckpoint(dirpath="checkpoints", every_n_train_steps=1)
    trainer = Trainer(
        accelerator="cpu_sim",
        devices=2,
        strategy=sys.argv[1],
        max_epochs=-1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[checkpoints],
    )
    trainer.fit(Model(), DataLoader(TensorDataset(torch.randn(4096, 8)), batch_size=2))
"""

LIMIT_S = 60.0
"""The limit for the processes' end on a busy machine; torch's own timeout is half an hour."""

Whom = Literal["all", "first", "rank 0", "rank 1"]
Stop = Callable[[str, Whom, signal.Signals], "Rest"]


@dataclass(frozen=True)
class Rest:
    """The remains of a stopped run."""

    code: int
    said: str
    seconds: float  # from the signal to the end of the last process
    checkpoints: Path

    def assert_nothing_is_left(self) -> None:
        assert self.seconds < LIMIT_S, f"a process outlived the signal by {self.seconds:.0f} s:\n{self.said}"

    def assert_checkpoints_are_whole(self) -> None:
        assert list(self.checkpoints.glob("*.ckpt"))
        for file in self.checkpoints.glob("*.ckpt"):
            assert "state_dict" in torch.load(file, weights_only=True)


@pytest.fixture
def stop(tmp_path: Path) -> Stop:
    def stopping(strategy: str, whom: Whom, signum: signal.Signals) -> Rest:
        (tmp_path / "train.py").write_text(USER)
        said: list[str] = []
        processes: dict[str, int] = {}
        sent = 0.0
        with subprocess.Popen(
            [sys.executable, "train.py", strategy],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as first:
            processes["first"] = first.pid
            watchdog = threading.Timer(2 * LIMIT_S, os.killpg, (first.pid, signal.SIGKILL))
            watchdog.start()
            assert first.stdout is not None
            # The pipe ends when nobody holds it any more: neither a rank, nor a process that a rank left behind.
            for line in first.stdout:
                said.append(line)
                found = re.fullmatch(r"(rank \d) trains as process (\d+)\n", line)
                if found:
                    processes[found[1]] = int(found[2])
                if not sent and len(processes) == 3:
                    sent = time.monotonic()
                    if whom == "all":
                        os.killpg(first.pid, signum)
                    else:
                        os.kill(processes[whom], signum)
            watchdog.cancel()
        assert sent, f"the training never came so far:\n{''.join(said)}"
        return Rest(first.returncode, "".join(said), time.monotonic() - sent, tmp_path / "checkpoints")

    return stopping


@pytest.mark.parametrize(
    ("strategy", "whom"), [("ddp", "all"), ("ddp", "rank 0"), ("ddp_spawn", "all"), ("ddp_spawn", "first")]
)
def test_ctrl_c_ends_every_rank(stop: Stop, strategy: str, whom: Whom) -> None:
    rest = stop(strategy, whom, signal.SIGINT)

    rest.assert_nothing_is_left()
    rest.assert_checkpoints_are_whole()
    assert rest.code == 1
    assert "Detected KeyboardInterrupt" in rest.said
    assert not list(rest.checkpoints.glob(".*"))


@pytest.mark.parametrize("whom", ["all", "rank 1"])
def test_sigterm_ends_script_ranks_after_the_batch(stop: Stop, whom: Whom) -> None:
    rest = stop("ddp", whom, signal.SIGTERM)

    rest.assert_nothing_is_left()
    rest.assert_checkpoints_are_whole()
    assert "rank 1 received SIGTERM and ends after this batch" in rest.said
    assert "Error" not in rest.said
    assert not list(rest.checkpoints.glob(".*"))


def test_sigterm_of_a_spawned_rank_ends_its_parent(stop: Stop) -> None:
    rest = stop("ddp_spawn", "rank 0", signal.SIGTERM)

    rest.assert_nothing_is_left()
    rest.assert_checkpoints_are_whole()
    assert rest.code == 1
    assert "rank 0 received SIGTERM and ends after this batch" in rest.said


@pytest.mark.parametrize("killed", ["rank 0", "rank 1"])
def test_killed_rank_ends_the_other_and_says_why(stop: Stop, killed: Whom) -> None:
    rest = stop("ddp", killed, signal.SIGKILL)

    rest.assert_nothing_is_left()
    rest.assert_checkpoints_are_whole()
    assert rest.code != 0
    # The last is from Lightning, which looks every five seconds after the scripts that it started.
    assert re.search(r"simccl's .* failed|Connection (reset|closed) by peer|Child process .* terminated", rest.said)
    if killed == "rank 1":  # rank 0 has started it, and sees how it ended
        assert re.search(r"rank 1 \(process \d+\) was killed by SIGKILL|Child process .* terminated", rest.said)


def test_killed_spawned_rank_ends_the_others(stop: Stop) -> None:
    rest = stop("ddp_spawn", "rank 1", signal.SIGKILL)

    rest.assert_nothing_is_left()
    rest.assert_checkpoints_are_whole()
    assert rest.code == 1
    assert re.search(r"simccl's .* failed|Connection (reset|closed) by peer|process 1 terminated", rest.said)
    if "process 1 terminated" in rest.said:
        assert re.search(r"^rank 1 \(process \d+\) was killed by SIGKILL$", rest.said, flags=re.M)


def test_spawned_ranks_do_not_outlive_their_parent(stop: Stop) -> None:
    rest = stop("ddp_spawn", "first", signal.SIGKILL)

    rest.assert_nothing_is_left()
    rest.assert_checkpoints_are_whole()
    assert rest.code == -signal.SIGKILL
