"""The cluster environment of mpiexec's ranks, as a Trainer and a Fabric find it."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import pytest
from tests.core.lightning.conftest import Build

from northbridge.errors import ClusterError
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import Namespace

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


def setenv(monkeypatch: pytest.MonkeyPatch, environ: Mapping[str, str]) -> None:
    for name, text in environ.items():
        monkeypatch.setenv(name, text)


def environment_of(host: Any) -> Any:
    return host.strategy.cluster_environment


@pytest.fixture
def started(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> Namespace:
    """A process that mpiexec has started, in each namespace."""
    setenv(monkeypatch, PMI)
    return namespace


def test_the_ranks_of_mpiexec_are_found(started: Namespace, build: Build) -> None:
    environment = environment_of(build(accelerator="cpu_sim", devices=2))

    assert type(environment) is classes(started).mpiexec_environment
    found = (environment.global_rank(), environment.world_size(), environment.local_rank(), environment.node_rank())
    assert found == (1, 2, 1, 0)
    assert (environment.main_address, environment.main_port) == ("127.0.0.1", 29500)
    assert environment.creates_processes_externally
    assert pickle.loads(pickle.dumps(environment)).place == environment.place


def test_it_answers_before_a_trainer_is_built(started: Namespace) -> None:
    assert classes(started).mpiexec_environment().world_size() == 2


def test_it_can_be_named(namespace: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    setenv(monkeypatch, {**PMI, **TORCHRUN})
    environment = classes(namespace).mpiexec_environment()

    assert environment_of(build(accelerator="cpu_sim", devices=2, plugins=environment)) is environment


@pytest.mark.parametrize(
    ("environ", "name"),
    [(TORCHRUN, "TorchElasticEnvironment"), (SRUN, "SLURMEnvironment"), ({"PMI_SIZE": "1"}, "LightningEnvironment")],
)
def test_another_launcher_starts_the_ranks(
    started: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch, environ: Mapping[str, str], name: str
) -> None:
    setenv(monkeypatch, environ)

    assert type(environment_of(build(accelerator="cpu_sim", devices=2))).__name__ == name


def test_a_job_of_slurm_needs_no_variables_of_srun(
    started: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_NTASKS", "2")

    assert type(environment_of(build(accelerator="cpu_sim", devices=2))) is classes(started).mpiexec_environment


def test_lightnings_own_accelerators_are_left_alone(started: Namespace, build: Build) -> None:
    host = build(accelerator="cpu", devices=2)

    assert type(environment_of(host)).__name__ == "LightningEnvironment"


def test_other_counts_are_refused(started: Namespace, build: Build) -> None:
    with pytest.raises(ClusterError, match=r"PMI_SIZE='2' on .*: with num_nodes=1 and devices=4 there are 4 processes"):
        build(accelerator="cpu_sim", devices=4)


def test_a_contradiction_is_refused(started: Namespace, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")

    with pytest.raises(ClusterError, match="PMI_RANK='1' contradicts OMPI_COMM_WORLD_RANK"):
        build(accelerator="cpu_sim", devices=2)
