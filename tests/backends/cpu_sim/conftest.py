"""Fixtures of the simulated chip's tests: the loaded chip, fresh processes, and ranks."""

from __future__ import annotations

import contextlib
import os
import signal
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import IO

import pytest
from tests.scripts import fork_script, run_python, wait

from northbridge_conformance.runs.processes import Process, reserve_port

LIMIT_S = 120.0
PROGRAMS = Path(__file__).with_name("csrc") / "collective" / "rank_programs.py"
ROOT = Path(__file__).parents[3]
FLINT = Path(__file__).parents[2] / "vendors" / "flint" / "northbridge_flint" / "simulated" / "device.toml"
"""A made-up chip that lacks and bends whatever a device.toml can take away and bend."""


@pytest.fixture(scope="session")
def chip() -> ModuleType:
    """The chip in this process, as torch offers it."""
    import northbridge

    northbridge.load("cpu_sim")
    import torch

    module: ModuleType = torch.get_device_module("cpu_sim")
    return module


@pytest.fixture
def in_fresh_process() -> Callable[..., str]:
    """Run a program in a Python of its own and return what it printed to stdout; its failure is the test's.

    For programs that are about what is imported, and when: the others are for `in_fork`.
    """

    def run(program: str, **environ: str) -> str:
        finished = run_python("-c", textwrap.dedent(program), environ={**os.environ, **environ})
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return finished.stdout

    return run


@pytest.fixture
def in_fork(tmp_path: Path) -> Callable[..., str]:
    """Do what `in_fresh_process` does in the fork of a process that has torch, which saves most of the time.

    The chip is loaded before the program begins, unless `load` is False.
    """

    def run(program: str, *, load: bool = True, **environ: str) -> str:
        number = len(list(tmp_path.glob("program-*.py")))
        script, printed, errors = (tmp_path / f"program-{number}.{end}" for end in ("py", "out", "err"))
        before = f"import os; os.dup2(os.open({str(errors)!r}, os.O_CREAT | os.O_WRONLY), 2)\n"
        if load:
            before += "import northbridge; northbridge.load('cpu_sim'); import torch\n"
        script.write_text(before + textwrap.dedent(program))
        with printed.open("wb") as output:
            process = _fork(script, output=output, environ=environ)
        ran = wait(process, script, printed)
        assert ran.status == 0, ran.said + errors.read_text()
        return ran.said

    return run


@pytest.fixture
def on_flint(in_fork: Callable[..., str]) -> Callable[..., list[str]]:
    """Run a program in which `device` is the made-up chip; return the lines that it printed.

    `refused(call)` prints what is raised. The program installs the chip.
    """

    def run(program: str, **environ: str) -> list[str]:
        before = f"""
        import os, threading
        from pathlib import Path
        import torch
        from northbridge_cpu_sim import SimulatedDevice, install
        device = SimulatedDevice.read(Path({str(FLINT)!r}))
        def refused(call):
            try:
                print("worked", call(), flush=True)
            except Exception as error:
                print(f"{{type(error).__name__}}: {{error}}", flush=True)
        """
        return in_fork(textwrap.dedent(before) + textwrap.dedent(program), load=False, **environ).splitlines()

    return run


@dataclass(frozen=True)
class Ranks:
    """Processes under RANK and so on, each of which runs one function of a file of programs."""

    processes: list[Process]
    printed: list[Path]

    def said(self, rank: int) -> str:
        """Wait for the end of `rank` and return what it printed."""
        self.status(rank)
        return self.printed[rank].read_text()

    def status(self, rank: int) -> int:
        """Wait for the end of `rank` and return its exit code."""
        return self.processes[rank].wait(LIMIT_S)


def refused(said: str) -> list[str]:
    """Return the refusals that a rank printed."""
    prefix = "refused: "
    return [line[len(prefix) :] for line in said.splitlines() if line.startswith(prefix)]


@pytest.fixture
def start_ranks(tmp_path: Path) -> Iterator[Callable[..., Ranks]]:
    """Start a function of a file of programs on so many ranks, or on those of them that `only` names.

    They are forks of a process that has imported torch, which saves most of their time.
    """
    started: list[Process] = []

    def start(
        function: str,
        size: int = 2,
        environ: Mapping[str, str] | None = None,
        programs: Path = PROGRAMS,
        only: Collection[int] | None = None,
    ) -> Ranks:
        given = {"NORTHBRIDGE_CPU_SIM_CHECK_COLLECTIVES": "1", **(environ or {})}
        places = _places(size)
        ranks = Ranks([], [])
        for rank in range(size) if only is None else only:
            ranks.printed.append(tmp_path / f"{function}-{rank}.txt")
            with ranks.printed[-1].open("wb") as output:
                process = _fork(programs, function, output=output, environ={**given, **places[rank]})
            ranks.processes.append(process)
            started.append(process)
        return ranks

    yield start
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def on_ranks(start_ranks: Callable[..., Ranks]) -> Callable[..., list[str]]:
    """Run a function of rank_programs.py on so many ranks and return what each printed."""

    def run(
        function: str, size: int = 2, environ: Mapping[str, str] | None = None, programs: Path = PROGRAMS
    ) -> list[str]:
        ranks = start_ranks(function, size, environ, programs)
        statuses = [ranks.status(rank) for rank in range(size)]
        said = [ranks.said(rank) for rank in range(size)]
        assert statuses == [0] * size, "\n".join(said)
        return said

    return run


_READ_BY_PYTHON_AND_TORCH = ("PYTHON", "TORCH")


def _fork(script: Path, *arguments: str, output: IO[bytes], environ: Mapping[str, str]) -> Process:
    """Fork a process that has torch, for a script that may import this repository's tests."""
    given = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]), **environ}
    late = [name for name in environ if not name.startswith(_READ_BY_PYTHON_AND_TORCH)]
    return fork_script(script, *arguments, folder=ROOT, output=output, environ=given, late=late, imported=())


def _places(size: int) -> list[dict[str, str]]:
    """Return the variables that tell each rank its place."""
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(reserve_port()), "WORLD_SIZE": str(size)}
    return [{**meeting, "RANK": str(rank)} for rank in range(size)]
