"""Jobs of two ranks whose machines are taken back: they write a checkpoint, end, and are taken up where they were."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest
from tests.core.lightning.test_clusters import slurm
from tests.scripts import fork_script, run_forked

from northbridge_conformance.runs.processes import reserve_port

USER = """
import hashlib, os, signal, sys
import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint, OnExceptionCheckpoint
from torch.utils.data import DataLoader

signals = {int(step): getattr(signal, name) for step, name in (each.split("=") for each in sys.argv[1:])}

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 1))

    def training_step(self, batch, index):
        if self.global_rank == 1 and self.global_step in signals:
            os.kill(os.getpid(), signals[self.global_step])
        return self.layer(torch.ones(4, 8, device=self.device)).square().mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.01)

if __name__ == "__main__":
    seed_everything(1)
    trainer = Trainer(
        accelerator="cpu_sim", devices=2, max_steps=8, logger=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[OnExceptionCheckpoint("."), ModelCheckpoint(save_top_k=0)],
    )
    model = Model()
    saved = "on_exception.ckpt" if os.path.exists("on_exception.ckpt") else None
    trainer.fit(model, DataLoader(range(16)), ckpt_path=saved)
    weights = hashlib.sha256(b"".join(each.detach().cpu().numpy().tobytes() for each in model.parameters()))
    os.write(1, f"rank {trainer.global_rank} ended at step {trainer.global_step} {weights.hexdigest()}\\n".encode())
"""

SCONTROL = """#!/bin/sh
echo "$@" >> requeued
"""


def run(folder: Path, *signals: str) -> list[str]:
    """Run the script, which starts its second rank by itself; ``signals`` are those that rank 1 gets, at which step."""
    (folder / "train.py").write_text(USER)
    ran = run_forked(folder / "train.py", *signals, folder=folder)
    assert ran.status == 0, ran.said
    return [line for line in ran.said.splitlines() if line.startswith("rank ")]


def run_job(folder: Path, *signals: str) -> list[str]:
    """Run the script as SLURM would, each rank of it."""
    (folder / "train.py").write_text(USER)
    scontrol = folder / "bin" / "scontrol"
    scontrol.parent.mkdir(exist_ok=True)
    scontrol.write_text(SCONTROL)
    scontrol.chmod(0o755)
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(reserve_port())}
    path = {"PATH": f"{scontrol.parent}:{os.environ['PATH']}"}
    files = [folder / f"rank-{rank}.txt" for rank in range(2)]
    ranks = []
    for rank, file in enumerate(files):
        environ = {**os.environ, **meeting, **path, **slurm(rank)}
        with file.open("wb") as output:
            ranks.append(fork_script(folder / "train.py", *signals, folder=folder, output=output, environ=environ))
    try:
        codes = [process.wait(150) for process in ranks]
    finally:
        for process in ranks:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    said = [file.read_text() for file in files]
    assert codes == [0, 0], said
    return [line for each in said for line in each.splitlines() if line.startswith("rank ")]


def ends(lines: list[str]) -> set[str]:
    """The step and the weights with which the ranks ended."""
    return {line.partition(" ended ")[2] for line in lines if " ended " in line}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    return ends(run(tmp_path_factory.mktemp("undisturbed")))


def test_a_training_that_sigterm_has_ended_is_taken_up(tmp_path: Path, undisturbed: set[str]) -> None:
    noted = run(tmp_path, "3=SIGTERM")
    taken_up = run(tmp_path)

    assert "rank 1 received SIGTERM and ends after this batch" in noted
    assert not ends(noted)
    assert ends(taken_up) == undisturbed
    (end,) = undisturbed
    assert end.startswith("at step 8 ")


def test_a_slurm_job_is_requeued_and_goes_on(tmp_path: Path, undisturbed: set[str]) -> None:
    noted = run_job(tmp_path, "3=SIGUSR1", "5=SIGTERM")
    (tmp_path / "on_exception.ckpt").unlink()  # SLURM's is to be taken
    taken_up = run_job(tmp_path)

    assert "rank 1 received signal 10: the ranks write a checkpoint after this batch" in noted
    assert (tmp_path / "requeued").read_text() == "requeue 1234567\n"
    assert [file.name for file in tmp_path.glob("hpc_ckpt*")] == ["hpc_ckpt_1.ckpt"]
    assert ends(taken_up) == undisturbed
