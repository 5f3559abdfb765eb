"""Users' scripts in the background: what they say while they run, and how they end; and the doctor, asked."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest
from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.network import INTERFACE, Node, NoNamespacesError, two_nodes
from tests.backends.simulation.processes import variables
from tests.core.command import Completed, command
from tests.scripts import fork_script, run_python

from northbridge_conformance.runs.processes import Process

LIMIT_S = 200.0
"""The limit for one step of a run: less than pytest's limit, and enough for eight ranks on two cores."""


@dataclass
class Job:
    """One script and its ranks, which are one process group."""

    process: Process
    stdin: IO[bytes]
    stdout: IO[bytes]
    printed: bytearray = field(default_factory=bytearray)

    @property
    def said(self) -> str:
        """The output of all processes of the job so far, on stdout and stderr."""
        return self.printed.decode(errors="replace")

    def wait_for(self, text: str, limit_s: float = LIMIT_S) -> None:
        """Return as soon as the job has printed ``text``."""
        deadline = time.monotonic() + limit_s
        while text not in self.said:
            assert self._read(deadline), f"{text!r} was not said:\n{self.said}"

    def press_enter(self) -> None:
        """Let a job go on that waits for it."""
        self.stdin.write(b"\n")

    def end(self, limit_s: float = LIMIT_S) -> int:
        """Return the exit status of the script, once every process of the job has closed its output."""
        deadline = time.monotonic() + limit_s
        while self._read(deadline):
            pass
        try:
            return self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the job did not end within {limit_s:g} s:\n{self.said}") from None

    def succeed(self) -> str:
        """Return what the job has printed at its end, which has to be a good one."""
        status = self.end()
        assert status == 0, self.said
        return self.said

    def kill(self) -> None:
        """End every process of the job."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.stdin.close()
        self.stdout.close()

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self.stdout], [], [], max(0.0, deadline - time.monotonic()))
        part = os.read(self.stdout.fileno(), 65536) if ready else b""
        self.printed += part
        return bool(part)


def succeed_together(jobs: Sequence[Job]) -> None:
    """Return once all jobs of one run have ended well; fail, with what all have said, as soon as one does not."""
    deadline = time.monotonic() + LIMIT_S
    waiting, failed = list(jobs), False
    while waiting and not failed:
        ready, _, _ = select.select([job.stdout for job in waiting], [], [], max(0.0, deadline - time.monotonic()))
        ended = [job for job in waiting if job.stdout in ready and not job._read(deadline)]
        failed = not ready or any(job.end() for job in ended)
        waiting = [job for job in waiting if job not in ended]
    assert not failed, "\n".join(job.said for job in jobs)


Start = Callable[..., Job]


@pytest.fixture
def start(sim: SimChip, environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    """Start a script in the test's folder; whatever it has started ends with the test.

    It is the test's own, or else the one of this name on the chip's page. It and its ranks are forks of a process that
    has imported Lightning, unless it is to be started ``afresh``: where it is about what is imported first. ``inside``
    is a command that starts others in a network of its own.
    """
    jobs: list[Job] = []
    vendors = variables(sim)
    # Two cores for all ranks; and a Trainer that shows no progress and keeps nothing.
    quiet = dict.fromkeys(("PL_TRAINER_ENABLE_PROGRESS_BAR", "PL_TRAINER_ENABLE_MODEL_SUMMARY"), "False")

    def starting(
        name: str | Path, *arguments: str, inside: Sequence[str] = (), afresh: bool = False, **environ: str
    ) -> Job:
        script, whole = tmp_path / name, {**environment, "OMP_NUM_THREADS": "1", **quiet, **environ}
        if not script.exists():
            script.write_text(sim.page.scripts[script.name])
        (their_stdin, stdin), (stdout, their_stdout) = os.pipe(), os.pipe()
        with open(their_stdin, "rb") as given, open(their_stdout, "wb") as output:
            begun: Process
            if afresh or inside:
                begun = subprocess.Popen(
                    [*inside, sys.executable, str(script), *arguments],
                    env=whole,
                    cwd=tmp_path,
                    stdin=given,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            else:
                begun = fork_script(
                    script, *arguments, folder=tmp_path, output=output, stdin=given, environ=whole, late=vendors
                )
        jobs.append(Job(begun, os.fdopen(stdin, "wb", 0), os.fdopen(stdout, "rb", 0)))
        return jobs[-1]

    yield starting
    for job in jobs:
        job.kill()


@pytest.fixture
def nodes() -> Iterator[tuple[Node, Node]]:
    """Two nodes that a network of their own joins."""
    with contextlib.ExitStack() as made:
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


def ask_doctor(chip: SimChip, environment: dict[str, str], *options: str, **environ: str) -> Completed:
    """Run ``northbridge doctor`` for ``chip``, and return what it said."""
    environ = {**environment, "COLUMNS": "100", "OMP_NUM_THREADS": "1", **environ}
    return run_python("-c", command("doctor", chip.name, *options), environ=environ)
