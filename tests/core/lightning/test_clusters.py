"""Jobs of two ranks that a cluster starts, and requeues: its variables are set by hand, nothing of it is installed."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.core.lightning.conftest import Build
from tests.scripts import fork_script, run_forked, wait

from northbridge.errors import ClusterError
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import Namespace
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
    where = f"on {trainer.strategy.root_device} by {type(trainer.strategy.cluster_environment).__name__}"
    said = f"rank {trainer.global_rank} {where} ended at step {trainer.global_step} {weights.hexdigest()}\\n"
    os.write(1, said.encode())
"""

SCONTROL = """#!/bin/sh
echo "$@" >> requeued
"""


def slurm(rank: int) -> dict[str, str]:
    return {
        "SLURM_JOB_ID": "1234567",
        "SLURM_JOB_NAME": "train",
        "SLURM_NTASKS": "2",
        "SLURM_NTASKS_PER_NODE": "2",
        "SLURM_NNODES": "1",
        "SLURM_NODEID": "0",
        "SLURM_NODELIST": "127.0.0.1",
        "SLURM_JOB_NODELIST": "127.0.0.1",
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank),
    }


def run_job(folder: Path, *signals: str) -> list[str]:
    """Run the script as SLURM would, each rank of it; return what the ranks say.

    ``signals`` are those that rank 1 gets, at which step.
    """
    scontrol = folder / "bin" / "scontrol"
    scontrol.parent.mkdir(exist_ok=True)
    scontrol.write_text(SCONTROL)
    scontrol.chmod(0o755)
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(reserve_port())}
    path = {"PATH": f"{scontrol.parent}:{os.environ['PATH']}"}
    script, files = folder / "train.py", [folder / f"rank-{rank}.txt" for rank in range(2)]
    ranks = []
    for rank, file in enumerate(files):
        environ = {**os.environ, **meeting, **path, **slurm(rank)}
        with file.open("wb") as output:
            ranks.append(fork_script(script, *signals, folder=folder, output=output, environ=environ, late=path))
    ends = [wait(process, script, file) for process, file in zip(ranks, files, strict=True)]
    assert [end.status for end in ends] == [0, 0], ends
    return [line for end in ends for line in end.said.splitlines() if line.startswith("rank ")]


def test_a_slurm_job_is_requeued_and_goes_on(tmp_path: Path) -> None:
    """The suite has the signal without SLURM (Preemption)."""
    (tmp_path / "train.py").write_text(USER)
    undisturbed = run_forked(tmp_path / "train.py", folder=tmp_path)  # starts its second rank by itself
    assert undisturbed.status == 0, undisturbed.said
    ends = {line.partition(" ended ")[2] for line in undisturbed.said.splitlines() if line.startswith("rank ")}

    noted = run_job(tmp_path, "3=SIGUSR1", "5=SIGTERM")
    (tmp_path / "on_exception.ckpt").unlink()  # SLURM's is to be taken
    taken_up = run_job(tmp_path)

    assert "rank 1 received signal 10: the ranks write a checkpoint after this batch" in noted
    assert not [line for line in noted if " ended " in line]
    assert (tmp_path / "requeued").read_text() == "requeue 1234567\n"
    assert [file.name for file in tmp_path.glob("hpc_ckpt*")] == ["hpc_ckpt_1.ckpt"]
    (end,) = ends
    assert end.startswith("at step 8 ")
    assert taken_up == [f"rank {rank} on cpu_sim:{rank} by SLURMEnvironment ended {end}" for rank in range(2)]


# --- The environment of mpiexec's ranks, as a Trainer and a Fabric find it


PMI = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
TORCHRUN = {"TORCHELASTIC_RUN_ID": "1", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "GROUP_RANK": "0"}
SRUN = {
    "SLURM_NTASKS": "2",
    "SLURM_NTASKS_PER_NODE": "2",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "0",
    "SLURM_STEP_NUM_TASKS": "2",
}


def environment_of(host: Any) -> Any:
    return host.strategy.cluster_environment


@pytest.fixture
def started(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> Namespace:
    """A process that mpiexec has started, in each namespace."""
    for name, text in PMI.items():
        monkeypatch.setenv(name, text)
    return namespace


def test_the_ranks_of_mpiexec_are_found(started: Namespace, build: Build) -> None:
    environment = environment_of(build(accelerator="cpu_sim", devices=2))

    assert type(environment) is classes(started).mpiexec_environment
    found = (environment.global_rank(), environment.world_size(), environment.local_rank(), environment.node_rank())
    assert found == (1, 2, 1, 0)
    assert (environment.main_address, environment.main_port) == ("127.0.0.1", 29500)
    assert environment.creates_processes_externally
    assert pickle.loads(pickle.dumps(environment)).place == environment.place


def test_it_can_be_named(started: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers before a Trainer is built, too."""
    for name, text in TORCHRUN.items():
        monkeypatch.setenv(name, text)
    environment = classes(started).mpiexec_environment()

    assert environment.world_size() == 2
    found = environment_of(build(accelerator="cpu_sim", devices=2, plugins=environment))
    assert found is environment


@pytest.mark.parametrize(
    ("environ", "name"),
    [(TORCHRUN, "TorchElasticEnvironment"), (SRUN, "SLURMEnvironment"), ({"PMI_SIZE": "1"}, "LightningEnvironment")],
)
def test_another_launcher_starts_the_ranks(
    started: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch, environ: Mapping[str, str], name: str
) -> None:
    for variable, text in environ.items():
        monkeypatch.setenv(variable, text)

    assert type(environment_of(build(accelerator="cpu_sim", devices=2))).__name__ == name


def test_a_job_of_slurm_needs_no_variables_of_srun(
    started: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_NTASKS", "2")

    assert type(environment_of(build(accelerator="cpu_sim", devices=2))) is classes(started).mpiexec_environment


def test_lightnings_environment_of_mpi_is_known(namespace: Namespace, build: Build) -> None:
    """Its ranks are looked for as those of MPI."""
    stock: Any = namespace.fabric_module("plugins.environments").LightningEnvironment
    named = type("MPIEnvironment", (stock,), {})()

    assert build(accelerator="cpu_sim", devices=2, plugins=named).strategy._run("launch").launcher == "mpi"


def test_lightnings_own_accelerators_are_left_alone(started: Namespace, build: Build) -> None:
    environment = environment_of(build(accelerator="cpu", devices=2))

    assert type(environment).__name__ == "LightningEnvironment"


def test_other_counts_are_refused(started: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """And variables that contradict each other."""
    with pytest.raises(ClusterError, match=r"PMI_SIZE='2' on .*: with num_nodes=1 and devices=4 there are 4 processes"):
        build(accelerator="cpu_sim", devices=4)
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    with pytest.raises(ClusterError, match="PMI_RANK='1' contradicts OMPI_COMM_WORLD_RANK"):
        build(accelerator="cpu_sim", devices=2)
