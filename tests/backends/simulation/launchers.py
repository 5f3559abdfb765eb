"""Act as each launcher does on one node of two: start two ranks, with the variables that it sets.

Arguments: the accelerator, this node's number, the addresses of both nodes, and the launchers. None of them is
installed.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.strategies import FSDPStrategy
from torch.distributed.fsdp import FullyShardedDataParallel

accelerator, node, first, second, *launchers = sys.argv[1:]
addresses = (first, second)
NODES, RANKS = 2, 2
SIZE = NODES * RANKS
QUIET: Any = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
NODEFILE = Path(f"nodes of {node}")
# Two nodes whose addresses differ in the last number, as SLURM writes them.
COMPACT = f"{addresses[0].rpartition('.')[0]}.[{','.join(each.rpartition('.')[2] for each in addresses)}]"


def pbs(job: str) -> dict[str, str]:
    """A job of PBS, whose file has one line for each slot."""
    return {"PBS_JOBID": f"{job}.server", "PBS_NODEFILE": str(NODEFILE)}


def slurm(job: str) -> dict[str, str]:
    """A job of SLURM, in its script: the numbers of the script's process."""
    return {
        "SLURM_JOB_ID": job,
        "SLURM_JOB_NAME": "train",
        "SLURM_JOB_NODELIST": COMPACT,
        "SLURM_NTASKS": str(SIZE),
        "SLURM_NTASKS_PER_NODE": str(RANKS),
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "0",
    }


def pmi(rank: int) -> dict[str, str]:
    """MPICH's and Intel's Hydra."""
    local = {"MPI_LOCALRANKID": str(rank % RANKS), "MPI_LOCALNRANKS": str(RANKS)}
    return {"PMI_RANK": str(rank), "PMI_SIZE": str(SIZE), **local}


def pals(rank: int) -> dict[str, str]:
    """HPE's mpiexec with `--pmi=cray`."""
    return {
        "PALS_APID": "4d0f",
        "PALS_RANKID": str(rank),
        "PALS_LOCAL_RANKID": str(rank % RANKS),
        "PALS_NODEID": node,
        "PMI_RANK": str(rank),
        "PMI_SIZE": str(SIZE),
        "PMI_LOCAL_RANK": str(rank % RANKS),
        "PMI_LOCAL_SIZE": str(RANKS),
    }


def world(prefix: str, rank: int) -> dict[str, str]:
    """Open MPI and MVAPICH, which name alike what they set."""
    said = {"RANK": rank, "SIZE": SIZE, "LOCAL_RANK": rank % RANKS, "LOCAL_SIZE": RANKS}
    return {f"{prefix}_COMM_WORLD_{name}": str(value) for name, value in said.items()}


def srun(rank: int) -> dict[str, str]:
    """srun with `--mpi=pmi2`."""
    return {
        "SLURM_PROCID": str(rank),
        "SLURM_LOCALID": str(rank % RANKS),
        "SLURM_NODEID": node,
        "SLURM_STEP_NODELIST": COMPACT,
        "SLURM_STEP_NUM_NODES": str(NODES),
        "SLURM_STEP_NUM_TASKS": str(SIZE),
        "PMI_RANK": str(rank),
        "PMI_SIZE": str(SIZE),
    }


def variables(launcher: str, rank: int) -> dict[str, str]:
    """Return what ``launcher`` sets for a rank."""
    if launcher == "PALS":
        return {**pbs("1001"), **pals(rank)}
    if launcher == "Open MPI":
        return {**pbs("1002[7]"), **world("OMPI", rank), "PMIX_RANK": str(rank)}
    if launcher == "MVAPICH":
        return {**pbs("1003"), **world("MV2", rank)}
    if launcher == "PMIx":
        return {**pbs("1004"), "PMIX_RANK": str(rank), "PMIX_NAMESPACE": "prterun-1"}
    if launcher == "Hydra in a job of SLURM":
        # Its daemons, one on each node, are srun's tasks.
        daemon = {"SLURM_PROCID": node, "SLURM_STEP_NUM_TASKS": str(NODES), "SLURM_STEP_NUM_NODES": str(NODES)}
        return {**slurm("1005"), **daemon, **pmi(rank)}
    return {**slurm("1006"), **srun(rank)}


class Hybrid(BoringModel):
    """Tells, at its end, what each rank holds of it, and how far it is from ``expected``."""

    def __init__(self, expected: LightningModule) -> None:
        super().__init__()
        self.expected = [each.detach().cpu() for each in expected.parameters()]

    def on_train_end(self) -> None:
        wrapped: Any = self.trainer.model
        held = sum(each.numel() for each in wrapped.parameters())
        with FullyShardedDataParallel.summon_full_params(wrapped, writeback=False):
            whole = [each.detach().cpu() for each in wrapped.parameters()]
        torch.testing.assert_close(whole, self.expected, rtol=0, atol=1e-5)
        mesh = wrapped._device_mesh.mesh.tolist()
        size = sum(each.numel() for each in whole)
        os.write(1, f"HYBRID_SHARD: rank {self.global_rank} holds {held} of {size} in {mesh}\n".encode())


def fit(model: LightningModule, strategy: Any = "auto") -> Trainer:
    """Train ``model`` for two steps on all nodes."""
    trainer = Trainer(accelerator=accelerator, devices=RANKS, num_nodes=NODES, max_steps=2, strategy=strategy, **QUIET)
    trainer.fit(model)
    return trainer


def train(launcher: str) -> None:
    """Train as one rank, and print where it was and what it has learned."""
    seed_everything(1)
    model = BoringModel()
    trainer = fit(model)
    weights = b"".join(each.detach().cpu().numpy().tobytes() for each in model.parameters())
    strategy: Any = trainer.strategy
    environment = type(strategy.cluster_environment).__name__
    place = f"rank {trainer.global_rank} of {trainer.world_size}, node {trainer.node_rank}, device {trainer.local_rank}"
    meeting = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    digest = hashlib.sha256(weights).hexdigest()[:12]
    os.write(1, f"{launcher}: {place}, {environment}, {meeting}, weights {digest}\n".encode())
    if launcher == launchers[-1]:
        seed_everything(1)
        fit(Hybrid(model), FSDPStrategy(sharding_strategy="HYBRID_SHARD", auto_wrap_policy={torch.nn.Linear}))


def start(launcher: str, rank: int) -> int:
    """Fork a process with the variables of a rank, and return its number."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.environ.update(variables(launcher, rank))
            train(launcher)
            status = 0
        finally:
            if status:
                traceback.print_exc()
            os._exit(status)
    return child


NODEFILE.write_text("".join(f"{each}\n" * RANKS for each in addresses))
for launcher in launchers:
    running = {start(launcher, int(node) * RANKS + local) for local in range(RANKS)}
    while running:
        ended, status = os.wait()
        running.remove(ended)
        if status:
            for rank in running:
                os.kill(rank, signal.SIGKILL)
            sys.exit(f"{launcher}: a rank failed")
