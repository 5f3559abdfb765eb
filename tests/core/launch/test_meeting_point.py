"""The address and port at which a job's ranks meet."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import pytest

from northbridge.errors import ClusterError
from northbridge.launch.mpiexec import DEFAULT_PORT, find_address, find_port

HERE = socket.gethostname()
FIX = "export MASTER_ADDR=<the address of rank 0's node>"


@pytest.mark.parametrize(
    ("environ", "port"),
    [
        ({"PBS_JOBID": "1234567.server"}, 19567),
        ({"PBS_JOBID": "12[3].server"}, 15123),
        ({"SLURM_JOB_ID": "42"}, 15042),
        ({"SLURM_JOB_ID": "42", "MASTER_PORT": "29400"}, 29400),
        ({}, DEFAULT_PORT),
    ],
)
def test_the_port_follows_from_the_job(environ: Mapping[str, str], port: int) -> None:
    assert find_port(environ) == port


def test_a_port_must_be_a_number() -> None:
    with pytest.raises(ClusterError, match=r"MASTER_PORT='x' on .* is not a number. Fix: unset it"):
        find_port({"MASTER_PORT": "x"})


def test_rank_0_is_on_the_first_node() -> None:
    listed = {"SLURM_JOB_NODELIST": f"{HERE},n2"}

    assert find_address(listed, rank=0, nodes=2) == HERE
    assert find_address({**listed, "MASTER_ADDR": "n7"}, rank=0, nodes=2) == "n7"
    assert find_address({"SLURM_JOB_NODELIST": "n[1-2]"}, rank=0, nodes=1) == "127.0.0.1"


def test_a_step_of_slurm_meets_on_its_own_first_node() -> None:
    step = {"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_STEP_NODELIST": "n[2-3]", "SLURMD_NODENAME": "n3"}

    assert find_address(step, rank=1, nodes=2, srun=True) == "n2"
    assert find_address(step, rank=1, nodes=1, srun=True) == "n2"


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({}, f"MASTER_ADDR, PBS_NODEFILE and SLURM_JOB_NODELIST are not set on host {HERE}. Fix: {FIX}"),
        (
            {"SLURM_JOB_NODELIST": HERE},
            f"SLURM_JOB_NODELIST='{HERE}' names 1 nodes, not num_nodes=2. Fix: change num_nodes=, or {FIX}",
        ),
        (
            {"SLURM_JOB_NODELIST": f"n1,{HERE}"},
            f"SLURM_JOB_NODELIST='n1,{HERE}' begins with n1, but rank 0 is on host {HERE}. Fix: {FIX}",
        ),
        (
            {"SLURM_JOB_NODELIST": "203.0.113.[1-2]"},
            "SLURM_JOB_NODELIST='203.0.113.[1-2]' names 203.0.113.1, 203.0.113.2, not",
        ),
    ],
)
def test_a_list_on_which_no_rank_would_meet_is_refused(environ: Mapping[str, str], says: str) -> None:
    with pytest.raises(ClusterError) as caught:
        find_address(environ, rank=0, nodes=2)

    assert str(caught.value).startswith(says)
