"""The place of a process among mpiexec's ranks."""

from __future__ import annotations

import socket

import pytest

from northbridge.errors import ClusterError
from northbridge.launch.placement import Place, find_place, infer_shape

HOST = f"host {socket.gethostname()}"
HERE = {"SLURM_JOB_NODELIST": f"203.0.113.1,{socket.gethostname()}"}  # this host is its second node


def hydra(rank: int, **changes: str) -> dict[str, str]:
    local = {"MPI_LOCALRANKID": str(rank % 2), "MPI_LOCALNRANKS": "2"}
    return {"PMI_RANK": str(rank), "PMI_SIZE": "4", **local, **changes}


def test_ranks_are_numbered_node_by_node() -> None:
    assert [find_place(hydra(rank), 2, 2) for rank in range(4)] == [
        Place(rank, 4, rank % 2, rank // 2) for rank in range(4)
    ]


def test_the_list_of_nodes_decides_for_ranks_in_turn() -> None:
    environ = {**hydra(1), "MPI_LOCALRANKID": "0", **HERE}

    assert find_place(environ, 2, 2) == Place(1, 4, 0, 1)


def test_pmix_needs_the_list_of_nodes_alone() -> None:
    assert find_place({"PMIX_RANK": "3", **HERE}, 2, 2) == Place(3, 4, 1, 1)
    assert find_place({"PMIX_RANK": "3"}, 1, 4) == Place(3, 4, 3, 0)


def test_pals_numbers_the_nodes() -> None:
    environ = {"PALS_RANKID": "2", "PALS_LOCAL_RANKID": "1", "PALS_NODEID": "0", "PALS_LOCAL_SIZE": "2"}

    assert find_place(environ, 2, 2) == Place(2, 4, 1, 0)


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
        ("PMI_RANK", "4", f"it must be from 0 to 3. Fix: {START}"),
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


def test_ranks_in_turn_need_the_list_of_nodes() -> None:
    with pytest.raises(ClusterError) as caught:
        find_place(hydra(1, MPI_LOCALRANKID="0"), 2, 2)

    assert str(caught.value) == (
        f"PMI_RANK='1' on {HOST}: its node is unknown. Fix: number the ranks node by node, as `mpiexec -ppn` does"
    )


def test_launchers_that_disagree_are_refused() -> None:
    with pytest.raises(ClusterError, match="PMI_SIZE='4' contradicts OMPI_COMM_WORLD_SIZE='2'"):
        find_place(hydra(1, OMPI_COMM_WORLD_SIZE="2"), 2, 2)


def test_a_run_without_mpiexec_is_refused() -> None:
    with pytest.raises(
        ClusterError, match=r"no variable of mpiexec has the rank, on .* Fix: start with `mpiexec -n 4`"
    ):
        find_place({}, 2, 2)


def test_pmix_without_the_list_of_nodes_is_refused() -> None:
    with pytest.raises(ClusterError, match="its node is unknown"):
        find_place({"PMIX_RANK": "0"}, 2, 2)


def test_a_rank_of_another_node_is_refused() -> None:
    with pytest.raises(ClusterError, match=r"PMIX_RANK='1' on .*: its node is unknown"):
        find_place({"PMIX_RANK": "1", **HERE}, 2, 2)
