"""Fixtures for runs as users start them: a script, its ranks, and two nodes.

A ``runs/conftest.py`` imports them; the first two take the place of those for programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.processes import variables
from tests.backends.simulation.runs.jobs import Job, start_job
from tests.backends.simulation.runs.network import INTERFACE, Node, NoNamespacesError, two_nodes

Start = Callable[..., Job]
Run = Callable[..., str]

_QUIET = ("PROGRESS_BAR", "MODEL_SUMMARY")


@pytest.fixture
def start(sim: SimChip, environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Start a script by its name; whatever it has started ends with the test.

    It is a fork of a process that has imported Lightning, unless it is to be started ``afresh``: where it is about what
    is imported first.
    """
    jobs: list[Job] = []
    vendors = variables(sim)

    def starting(script: str, *arguments: str, inside: Sequence[str] = (), afresh: bool = False, **environ: str) -> Job:
        # Two cores for all ranks; and a Trainer that shows no progress and keeps nothing.
        few = {"OMP_NUM_THREADS": "1"} | {f"PL_TRAINER_ENABLE_{part}": "False" for part in _QUIET}
        whole = {**environment, **few, **environ}
        late = None if afresh else vendors
        job = start_job(sim.script(script), *arguments, folder=tmp_path, environ=whole, inside=inside, late=late)
        jobs.append(job)
        return job

    yield starting
    for job in jobs:
        job.kill()


@pytest.fixture
def run(start: Start) -> Run:
    """Run a script to its end, which has to be a good one, and return what it printed."""

    def running(script: str, *arguments: str, **environ: str) -> str:
        job = start(script, *arguments, **environ)
        status = job.end()
        assert status == 0, job.said
        return job.said

    return running


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
def documented(sim: SimChip, nodes: tuple[Node, Node], tmp_path: Path) -> list[dict[str, str]]:
    """The environment that vendors' documentations have a user set on each node, and a server for each."""
    return [
        {
            "MASTER_ADDR": nodes[0].address,
            "MASTER_PORT": "29500",
            "WORLD_SIZE": "4",
            "NODE_RANK": str(rank),
            "GLOO_SOCKET_IFNAME": INTERFACE,  # a simulated library travels over Gloo
            **sim.on_server(tmp_path / f"server of node {rank}"),
            **environ,
        }
        for rank, environ in enumerate(sim.nodes)
    ]
