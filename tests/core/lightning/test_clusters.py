"""Ranks that a cluster starts: its variables are set by hand, and nothing of it is installed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.scripts import start_python

from northbridge_conformance.runs.processes import reserve_port

USER = """
import hashlib, os
from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.demos.boring_classes import BoringModel

seed_everything(1)
quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
trainer = Trainer(accelerator="cpu_sim", devices=2, max_steps=4, **quiet)
model = BoringModel()
trainer.fit(model)
weights = hashlib.sha256(b"".join(each.detach().numpy().tobytes() for each in model.parameters())).hexdigest()
started = type(trainer.strategy.cluster_environment).__name__
where = f"rank {trainer.global_rank} of {trainer.world_size} on {trainer.strategy.root_device}"
os.write(1, f"{where} by {started} {weights}\\n".encode())
"""

MPI4PY = '''
"""Stands in for mpi4py: what Lightning asks of it, where no variable of a launcher is set."""
import os, socket, sys

class Comm:
    def Get_size(self):
        return 2

    def Get_rank(self):
        return int(os.environ["RANK_OF_TEST"])

    def bcast(self, value, root=0):
        if isinstance(value, int):
            return int(os.environ["PORT_OF_TEST"])
        return [socket.gethostname()] if isinstance(value, list) else "127.0.0.1"

    def gather(self, value, root=0):
        return [value] * self.Get_size() if self.Get_rank() == root else None

    def Split(self, color, key=0):
        return self

class MPI:
    COMM_WORLD = Comm()

sys.modules["mpi4py.MPI"] = MPI
'''


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


def mpi4py(rank: int) -> dict[str, str]:
    return {"RANK_OF_TEST": str(rank)}


@pytest.mark.parametrize(
    ("variables", "environment"), [(slurm, "SLURMEnvironment"), (mpi4py, "MPIEnvironment")], ids=["SLURM", "MPI"]
)
def test_ranks_of_a_cluster_meet(tmp_path: Path, variables: Callable[[int], dict[str, str]], environment: str) -> None:
    (tmp_path / "train.py").write_text(USER)
    if environment == "MPIEnvironment":
        (tmp_path / "mpi4py").mkdir()
        (tmp_path / "mpi4py" / "__init__.py").write_text(MPI4PY)
    port = str(reserve_port())
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "PORT_OF_TEST": port, "PYTHONPATH": str(tmp_path)}

    ranks = [
        start_python("train.py", folder=tmp_path, environ={**os.environ, **meeting, **variables(rank)})
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=150) for rank in ranks]

    lines = [out.splitlines()[-1] if out else errors for out, errors in said]
    assert [line.rpartition(" ")[0] for line in lines] == [
        f"rank {rank} of 2 on cpu_sim:{rank} by {environment}" for rank in range(2)
    ]
    assert lines[0].split()[-1] == lines[1].split()[-1]
