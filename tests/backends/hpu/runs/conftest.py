"""Runs as users start them: a script, its ranks, and a simulated server of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.backends.hpu.runs.jobs import Job, start_job
from tests.backends.hpu.runs.network import INTERFACE, Node, NoNamespacesError, two_nodes

Start = Callable[..., Job]

_QUIET = ("PROGRESS_BAR", "MODEL_SUMMARY")


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Start a script of ``scripts/``; whatever it has started ends with the test."""
    jobs: list[Job] = []

    def starting(script: str, *arguments: str, inside: Sequence[str] = (), **environ: str) -> Job:
        # Two cores for all ranks; and a Trainer that shows no progress and keeps nothing.
        few = {"OMP_NUM_THREADS": "1"} | {f"PL_TRAINER_ENABLE_{part}": "False" for part in _QUIET}
        job = start_job(script, *arguments, folder=tmp_path, environ={**environment, **few, **environ}, inside=inside)
        jobs.append(job)
        return job

    yield starting
    for job in jobs:
        job.kill()


@pytest.fixture
def run(start: Start) -> Callable[..., str]:
    """Run a script of ``scripts/`` to its end, which has to be a good one, and return what it printed."""

    def running(script: str, *arguments: str, **environ: str) -> str:
        job = start(script, *arguments, **environ)
        status = job.end()
        assert status == 0, job.said
        return job.said

    return running


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """The folder that is the server of this test's runs."""
    return tmp_path / "server"


@pytest.fixture
def nodes() -> Iterator[tuple[Node, Node]]:
    """Two nodes that a network of their own joins."""
    with ExitStack() as made:
        try:
            pair = made.enter_context(two_nodes())
        except NoNamespacesError as error:
            pytest.skip(f"this machine makes no network namespaces: {error}")
        yield pair


@pytest.fixture
def documented(nodes: tuple[Node, Node], tmp_path: Path) -> list[dict[str, str]]:
    """The environment that the Habana documentation has a user set on each node, and a server of cards for each."""
    return [
        {
            "MASTER_ADDR": nodes[0].address,
            "MASTER_PORT": "29500",
            "WORLD_SIZE": "4",
            "NODE_RANK": str(rank),
            "GLOO_SOCKET_IFNAME": INTERFACE,  # the simulated HCCL travels over Gloo
            "NORTHBRIDGE_HPU_SIM_SERVER": str(tmp_path / f"server of node {rank}"),
            "NORTHBRIDGE_HPU_SIM_MODULES": modules,
        }
        for rank, modules in enumerate(("5,4,7,6,2,1,0,3", "7,6,5,4,3,2,1,0"))
    ]
