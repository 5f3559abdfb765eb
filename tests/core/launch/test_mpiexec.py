"""The variables of mpiexec's launchers, contradictions among them, the nodes of a job, and where its ranks meet."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from northbridge.errors import ClusterError
from northbridge.launch.mpiexec import (
    DEFAULT_PORT,
    Place,
    find_address,
    find_place,
    find_port,
    infer_shape,
    starts_ranks,
)
from northbridge.launch.node_list import NodeList, expand

HOST = f"host {socket.gethostname()}"
OMPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
PMI = {"PMI_RANK": "1", "PMI_SIZE": "4"}
PALS = {"PALS_RANKID": "1", "PALS_LOCAL_RANKID": "1"}
MV2 = {"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "4"}
STEP = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NUM_NODES": "2"}
DAEMON = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "2"}
SCRIPT = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}


@pytest.mark.parametrize(
    ("environ", "starts"),
    [
        *((each, True) for each in (OMPI, PMI, PALS, MV2, {"PMIX_RANK": "1"}, {**PALS, **PMI, "PMIX_RANK": "1"})),
        # A process on its own.
        *((each, False) for each in ({}, {"PMI_RANK": "0", "PMI_SIZE": "1"}, {"PMI_SIZE": "4"}, STEP)),
        # mpiexec in a job of SLURM, from its script or by its daemon.
        *(({**SCRIPT, **PMI}, True), ({**DAEMON, **PMI}, True)),
        # srun, with the variables of PMI and PALS.
        *(({**STEP, **PMI}, False), ({**STEP, **PALS, "PMIX_RANK": "1"}, False)),
    ],
)
def test_mpiexec_starts_ranks(environ: Mapping[str, str], starts: bool) -> None:
    assert starts_ranks(environ) is starts


def refused(environ: Mapping[str, str]) -> ClusterError:
    with pytest.raises(ClusterError) as caught:
        starts_ranks(environ)
    return caught.value


LEFT_OVER = f"on {HOST}: Open MPI's is left over. Fix: unset OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE"


ONE = "one is left over. Fix: unset the variables of Open MPI or PMI, whichever did not start this process"


@pytest.mark.parametrize(
    ("environ", "wrong", "right", "told"),
    [
        (
            *({**PALS, **PMI, **OMPI, "OMPI_COMM_WORLD_RANK": "3"}, "OMPI_COMM_WORLD_RANK='3'", "PALS_RANKID='1'"),
            LEFT_OVER,
        ),
        (
            *({**STEP, **OMPI, "OMPI_COMM_WORLD_SIZE": "8"}, "OMPI_COMM_WORLD_SIZE='8'", "SLURM_STEP_NUM_TASKS='4'"),
            LEFT_OVER,
        ),
        ({**OMPI, **PMI, "PMI_SIZE": "2"}, "PMI_SIZE='2'", "OMPI_COMM_WORLD_SIZE='4'", f"on {HOST}: {ONE}"),
    ],
    ids=["by all others", "by srun", "by one other"],
)
def test_a_launcher_that_is_contradicted_is_left_over(
    environ: Mapping[str, str], wrong: str, right: str, told: str
) -> None:
    error = refused(environ)

    assert str(error) == f"{wrong} contradicts {right} {told}"
    assert wrong.startswith(f"{error.variable}=")
    for text in ({**PMI, "PMI_RANK": "one"}, {**STEP, **PMI, "SLURM_PROCID": ""}):
        assert str(refused(text)).endswith(f" on {HOST} is not a number. Fix: unset it")


HERE = {"SLURM_JOB_NODELIST": f"203.0.113.1,{socket.gethostname()}"}  # this host is its second node


def hydra(rank: int, **changes: str) -> dict[str, str]:
    local = {"MPI_LOCALRANKID": str(rank % 2), "MPI_LOCALNRANKS": "2"}
    return {"PMI_RANK": str(rank), "PMI_SIZE": "4", **local, **changes}


@pytest.mark.parametrize(
    ("environ", "nodes", "devices", "place"),
    [
        *((hydra(rank), 2, 2, Place(rank, 4, rank % 2, rank // 2)) for rank in range(4)),  # node by node
        ({**hydra(1), "MPI_LOCALRANKID": "0", **HERE}, 2, 2, Place(1, 4, 0, 1)),  # in turn: the list decides
        ({"PMIX_RANK": "3", **HERE}, 2, 2, Place(3, 4, 1, 1)),
        ({"PMIX_RANK": "3"}, 1, 4, Place(3, 4, 3, 0)),
        (
            {"PALS_RANKID": "2", "PALS_LOCAL_RANKID": "1", "PALS_NODEID": "0", "PALS_LOCAL_SIZE": "2"},
            *(2, 2, Place(2, 4, 1, 0)),
        ),
    ],
)
def test_a_place_is_found(environ: dict[str, str], nodes: int, devices: int, place: Place) -> None:
    assert find_place(environ, nodes, devices) == place


def test_the_sizes_say_how_many_nodes() -> None:
    assert infer_shape(hydra(0)) == (2, 2)
    with pytest.raises(ClusterError, match=r"sets no number of nodes .* Fix: build the Trainer first"):
        infer_shape({"PMIX_RANK": "0"})


START = "start with `mpiexec -n 4`, 2 on each node, or unset it if it is left over"


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("PMI_SIZE", "8", f"there are 4 processes. Fix: {START}"),
        ("MPI_LOCALNRANKS", "4", f"there are 2 processes on each node. Fix: {START}"),
        ("PMI_RANK", "-1", f"it must be from 0 to 3. Fix: {START}"),
        ("MPI_LOCALRANKID", "2", f"it must be from 0 to 1. Fix: {START}"),
        ("PALS_NODEID", "2", f"it must be from 0 to 1. Fix: {START}"),
    ],
)
def test_numbers_that_the_run_does_not_have_are_refused(name: str, text: str, rule: str) -> None:
    with pytest.raises(ClusterError) as caught:
        find_place(hydra(1, **{name: text}), 2, 2)

    assert str(caught.value) == f"{name}='{text}' on {HOST}: with num_nodes=2 and devices=2 {rule}"
    assert caught.value.variable == name


UNKNOWN = f" on {HOST}: its node is unknown. Fix: number the ranks node by node, as `mpiexec -ppn` does"


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        (hydra(1, MPI_LOCALRANKID="0"), f"PMI_RANK='1'{UNKNOWN}"),
        ({"PMIX_RANK": "0"}, f"PMIX_RANK='0'{UNKNOWN}"),
        ({"PMIX_RANK": "1", **HERE}, f"PMIX_RANK='1'{UNKNOWN}"),  # of another node
        (hydra(1, OMPI_COMM_WORLD_SIZE="2"), "PMI_SIZE='4' contradicts OMPI_COMM_WORLD_SIZE='2'"),
        ({}, f"no variable of mpiexec has the rank, on {HOST}. Fix: start with `mpiexec -n 4`, 2 on each node"),
    ],
)
def test_a_place_that_is_unknown_is_refused(environ: Mapping[str, str], told: str) -> None:
    with pytest.raises(ClusterError) as caught:
        find_place(environ, 2, 2)

    assert str(caught.value).startswith(told)


THIS = socket.gethostname()
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


def test_rank_0_is_on_the_first_node() -> None:
    """A step of SLURM meets on its own first node."""
    listed = {"SLURM_JOB_NODELIST": f"{THIS},n2"}

    assert find_address(listed, rank=0, nodes=2) == THIS
    assert find_address({**listed, "MASTER_ADDR": "n7"}, rank=0, nodes=2) == "n7"
    assert find_address({"SLURM_JOB_NODELIST": "n[1-2]"}, rank=0, nodes=1) == "127.0.0.1"
    step = {"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_STEP_NODELIST": "n[2-3]", "SLURMD_NODENAME": "n3"}
    assert find_address(step, rank=1, nodes=2, srun=True) == "n2"
    assert find_address(step, rank=1, nodes=1, srun=True) == "n2"


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({}, f"MASTER_ADDR, PBS_NODEFILE and SLURM_JOB_NODELIST are not set on host {THIS}. Fix: {FIX}"),
        (
            {"SLURM_JOB_NODELIST": THIS},
            f"SLURM_JOB_NODELIST='{THIS}' names 1 nodes, not num_nodes=2. Fix: change num_nodes=, or {FIX}",
        ),
        (
            {"SLURM_JOB_NODELIST": f"n1,{THIS}"},
            f"SLURM_JOB_NODELIST='n1,{THIS}' begins with n1, but rank 0 is on host {THIS}. Fix: {FIX}",
        ),
        (
            {"SLURM_JOB_NODELIST": "203.0.113.[1-2]"},
            (
                f"SLURM_JOB_NODELIST='203.0.113.[1-2]' names 203.0.113.1, 203.0.113.2, not this host, {THIS}. Fix:"
                " start inside the job, or unset SLURM_JOB_NODELIST and export MASTER_ADDR"
            ),
        ),
    ],
)
def test_a_list_on_which_no_rank_would_meet_is_refused(environ: Mapping[str, str], says: str) -> None:
    with pytest.raises(ClusterError) as caught:
        find_address(environ, rank=0, nodes=2)

    assert str(caught.value).startswith(says)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n[1-3,7]", ["n1", "n2", "n3", "n7"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("n[1-7:3],m2", ["n1", "n4", "n7", "m2"]),
        ("rack[0-1]n[1-2].local", ["rack0n1.local", "rack0n2.local", "rack1n1.local", "rack1n2.local"]),
        ("a b,c", ["a", "b", "c"]),
        ("10.77.0.[1,2]", ["10.77.0.1", "10.77.0.2"]),
    ],
)
def test_a_list_of_slurm_is_expanded(text: str, hosts: list[str]) -> None:
    assert list(expand(text, "SLURM_JOB_NODELIST")) == hosts


@pytest.mark.parametrize("text", ["n[1-", "n[3-1]", "n[a]", "n]", "n[0-99999999]", "n[1-2:0]", ",", "n[[1]]"])
def test_a_malformed_list_is_refused(text: str) -> None:
    with pytest.raises(ClusterError, match=r"is not a list of nodes\. Fix: unset it, and export MASTER_ADDR") as caught:
        expand(text, "SLURM_JOB_NODELIST")

    assert caught.value.variable == "SLURM_JOB_NODELIST"


def test_pbs_file_names_each_host_once(tmp_path: Path) -> None:
    file = tmp_path / "nodes"
    file.write_text(f"other.site\nother.site\n{THIS}.site\n{THIS}.site\n")

    listed = NodeList.read({"PBS_NODEFILE": str(file), "SLURM_JOB_NODELIST": "n1"})

    assert listed is not None
    assert listed.hosts == ("other.site", f"{THIS}.site")
    assert listed.position() == 1
    by_address = NodeList.read({"SLURM_JOB_NODELIST": "203.0.113.1,127.0.0.1"})  # of this machine
    assert by_address is not None
    assert by_address.position() == 1


@pytest.mark.parametrize(("text", "says"), [(None, "cannot be read ("), ("\n", "is empty. Fix: unset it")])
def test_a_file_without_nodes_is_refused(tmp_path: Path, text: str | None, says: str) -> None:
    file = tmp_path / "nodes"
    if text is not None:
        file.write_text(text)

    with pytest.raises(ClusterError) as caught:
        NodeList.read({"PBS_NODEFILE": str(file)})

    assert str(caught.value).startswith(f"PBS_NODEFILE='{file}' {says}")


def test_8192_ranks_find_their_places_in_a_second() -> None:
    nodes, devices = 1024, 8
    listed = {"SLURM_JOB_NODELIST": f"n[0001-1023],{THIS}"}  # this host is the last of them
    begun = time.process_time()
    for rank in range(nodes * devices):
        local = {"MPI_LOCALRANKID": str(rank % devices), "MPI_LOCALNRANKS": str(devices)}
        environ = {**listed, **local, "PMI_RANK": str(rank), "PMI_SIZE": str(nodes * devices)}
        assert find_place(environ, nodes, devices) == Place(rank, nodes * devices, rank % devices, nodes - 1)
        step = {"SLURM_STEP_NODELIST": "n[0001-1024]", "SLURMD_NODENAME": f"n{rank // devices + 1:04}"}
        assert find_address(step, rank=rank, nodes=nodes, srun=True) == "n0001"

    assert time.process_time() - begun < 1
