"""The variables of mpiexec's launchers: which of them start ranks, and contradictions among them."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import pytest

from northbridge.errors import ClusterError
from northbridge.launch.mpiexec import starts_ranks

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
