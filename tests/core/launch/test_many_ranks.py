"""8,192 ranks on paper: what each of them checks and reads before it meets the others, all in this process."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from importlib import import_module

import pytest
from torch._C._distributed_c10d import HashStore, Store

from northbridge.launch.cluster import check_environment, check_numbers
from northbridge.launch.environment import Launcher, Run
from northbridge.launch.mpiexec import Place, find_address, find_place, find_port
from northbridge.launch.rendezvous import meet

NODES, DEVICES = 1024, 8
RANKS = NODES * DEVICES
LIMIT_S = 1.0
HERE = socket.gethostname()
AT = {"MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "29500"}
ALL = {"WORLD_SIZE": str(RANKS), "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_USE_AGENT_STORE": "True"}
JOB = {"SLURM_JOB_ID": "1234567", "SLURM_NTASKS": str(RANKS), "SLURM_STEP_NODELIST": "n[0001-1024]"}
PBS = {"PBS_JOBID": "1234567.server", "SLURM_JOB_NODELIST": f"n[0001-1023],{HERE}"}


def by_lightning(rank: int) -> None:
    environ = {**AT, "NODE_RANK": str(rank // DEVICES), "LOCAL_RANK": str(rank % DEVICES)}
    _check("lightning", environ)


def by_torchrun(rank: int) -> None:
    place = {"RANK": str(rank), "LOCAL_RANK": str(rank % DEVICES), "GROUP_RANK": str(rank // DEVICES)}
    _check("torchrun", {**AT, **ALL, **place})


def by_srun(rank: int) -> None:
    node = rank // DEVICES
    place = {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank % DEVICES), "SLURM_NODEID": str(node)}
    environ = {**JOB, **place, "SLURMD_NODENAME": f"n{node + 1:04}"}
    _check("slurm", environ)
    assert find_address(environ, rank=rank, nodes=NODES, srun=True) == "n0001"
    assert find_port(environ) == 19567


def by_mpiexec(rank: int) -> None:
    local = {"MPI_LOCALRANKID": str(rank % DEVICES), "MPI_LOCALNRANKS": str(DEVICES)}
    environ = {**PBS, **local, "PMI_RANK": str(rank), "PMI_SIZE": str(RANKS)}
    assert find_place(environ, NODES, DEVICES) == Place(rank, RANKS, rank % DEVICES, NODES - 1)  # where this host is
    assert find_port(environ) == 19567


def _check(launcher: Launcher, environ: dict[str, str]) -> None:
    run = Run(NODES, DEVICES, launcher, "rank")
    check_numbers(run, environ)
    check_environment(run, environ)


@pytest.mark.parametrize("start", [by_lightning, by_torchrun, by_srun, by_mpiexec])
def test_8192_ranks_are_checked_in_a_second(start: Callable[[int], None]) -> None:
    begun = time.process_time()
    for rank in range(RANKS):
        start(rank)

    assert time.process_time() - begun < LIMIT_S


def test_8192_ranks_of_torchrun_agree_in_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    store = HashStore()
    torchs_own = import_module("torch.distributed.rendezvous")
    monkeypatch.setattr(torchs_own, "rendezvous", lambda *_, **__: iter([(store, 0, RANKS)]))
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    begun = time.process_time()
    for rank in range(1, RANKS):
        store.set(f"northbridge/meeting/questions/{rank}", str(rank))
    store.add("northbridge/meeting/questions/count", RANKS - 1)
    stores: list[Store | None] = []
    first = threading.Thread(target=lambda: stores.append(meet("hpu (hccl)", rank=0, world_size=RANKS, timeout=None)))
    first.start()
    prefix = ""
    for rank in range(1, RANKS):
        prefix = f"northbridge/{store.get(f'northbridge/meeting/answer/{rank}').decode()}/northbridge/chips"
        store.set(f"{prefix}/answers/{rank}", f"{rank} hpu (hccl)")
    store.add(f"{prefix}/answers/count", RANKS - 1)
    first.join()

    assert stores[0]
    assert store.get(f"{prefix}/verdict") == b"agreed"
    assert time.process_time() - begun < LIMIT_S
