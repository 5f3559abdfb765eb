"""The variables of mpiexec's launchers: which of them start ranks, and contradictions among them."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import pytest

from northbridge.errors import ClusterError
from northbridge.launch.mpiexec import Place, find_place, infer_shape, starts_ranks

HOST = f"host {socket.gethostname()}"
OMPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
PMI = {"PMI_RANK": "1", "PMI_SIZE": "4"}
PALS = {"PALS_RANKID": "1", "PALS_LOCAL_RANKID": "1"}
MV2 = {"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "4"}
STEP = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NUM_NODES": "2"}
DAEMON = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "2"}
SCRIPT = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}


@pytest.mark.parametrize("environ", [OMPI, PMI, PALS, MV2, {"PMIX_RANK": "1"}, {**PALS, **PMI, "PMIX_RANK": "1"}])
def test_each_launcher_starts_ranks(environ: Mapping[str, str]) -> None:
    assert starts_ranks(environ)


@pytest.mark.parametrize("environ", [{}, {"PMI_RANK": "0", "PMI_SIZE": "1"}, {"PMI_SIZE": "4"}, STEP])
def test_a_process_on_its_own_is_not_mpiexecs(environ: Mapping[str, str]) -> None:
    assert not starts_ranks(environ)


@pytest.mark.parametrize("inside", [SCRIPT, DAEMON], ids=["script", "daemon"])
def test_mpiexec_starts_ranks_in_a_job_of_slurm(inside: Mapping[str, str]) -> None:
    assert starts_ranks({**inside, **PMI})


def test_srun_starts_ranks_with_the_variables_of_pmi() -> None:
    assert not starts_ranks({**STEP, **PMI})
    assert not starts_ranks({**STEP, **PALS, "PMIX_RANK": "1"})


def refused(environ: Mapping[str, str]) -> ClusterError:
    with pytest.raises(ClusterError) as caught:
        starts_ranks(environ)
    return caught.value


def test_a_launcher_that_all_others_contradict_is_left_over() -> None:
    error = refused({**PALS, **PMI, **OMPI, "OMPI_COMM_WORLD_RANK": "3"})

    assert error.variable == "OMPI_COMM_WORLD_RANK"
    assert str(error) == (
        f"OMPI_COMM_WORLD_RANK='3' contradicts PALS_RANKID='1' on {HOST}: Open MPI's is left over. Fix: unset"
        " OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE"
    )


def test_two_launchers_that_disagree_are_both_named() -> None:
    error = refused({**OMPI, **PMI, "PMI_SIZE": "2"})

    assert str(error) == (
        f"PMI_SIZE='2' contradicts OMPI_COMM_WORLD_SIZE='4' on {HOST}: one is left over. Fix: unset the variables of"
        " Open MPI or PMI, whichever did not start this process"
    )


def test_a_variable_that_contradicts_srun_is_left_over() -> None:
    error = refused({**STEP, **OMPI, "OMPI_COMM_WORLD_SIZE": "8"})

    assert str(error) == (
        f"OMPI_COMM_WORLD_SIZE='8' contradicts SLURM_STEP_NUM_TASKS='4' on {HOST}: Open MPI's is left over. Fix: unset"
        " OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE"
    )


@pytest.mark.parametrize("environ", [{**PMI, "PMI_RANK": "one"}, {**STEP, **PMI, "SLURM_PROCID": ""}])
def test_a_text_must_be_a_number(environ: Mapping[str, str]) -> None:
    assert str(refused(environ)).endswith(f" on {HOST} is not a number. Fix: unset it")


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
