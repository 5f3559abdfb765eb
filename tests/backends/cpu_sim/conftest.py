"""What the tests of the simulated chip share: the loaded chip, fresh processes, and ranks."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.core.conftest import install as install
from tests.ports import free_port

LIMIT_S = 120.0
PROGRAMS = Path(__file__).with_name("rank_programs.py")
ROOT = Path(__file__).parents[3]
POSED = Path(__file__).parents[2] / "vendors" / "posed" / "northbridge_posed" / "simulated" / "device.toml"
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
    """Run a program in a Python of its own and return what it printed; its failure is the test's.

    The chip is loaded, and torch imported, before the program begins, unless `load` is False.
    """

    def run(program: str, *, load: bool = True, **environ: str) -> str:
        before = "import northbridge; northbridge.load('cpu_sim'); import torch\n" if load else ""
        finished = subprocess.run(
            [sys.executable, "-c", before + textwrap.dedent(program)],
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return finished.stdout

    return run


@pytest.fixture
def posing(in_fresh_process: Callable[..., str]) -> Callable[..., list[str]]:
    """Run a program in a Python of its own, in which `device` is the made-up chip; return the lines that it printed.

    `refused(call)` prints what is raised. The program installs the chip.
    """

    def run(program: str, **environ: str) -> list[str]:
        before = f"""
        import os, threading
        from pathlib import Path
        import torch
        from northbridge_cpu_sim import SimulatedDevice, install
        device = SimulatedDevice.read(Path({str(POSED)!r}))
        def refused(call):
            try:
                print("worked", call(), flush=True)
            except Exception as error:
                print(f"{{type(error).__name__}}: {{error}}", flush=True)
        """
        return in_fresh_process(textwrap.dedent(before) + textwrap.dedent(program), load=False, **environ).splitlines()

    return run


@dataclass(frozen=True)
class Ranks:
    """Processes under RANK and so on, each of which runs one function of a file of programs."""

    processes: list[subprocess.Popen[str]]

    def said(self, rank: int) -> str:
        """Wait for the end of `rank` and return what it printed."""
        return self.processes[rank].communicate(timeout=LIMIT_S)[0]


def refused(said: str) -> list[str]:
    """Return the refusals that a rank printed."""
    prefix = "refused: "
    return [line[len(prefix) :] for line in said.splitlines() if line.startswith(prefix)]


@pytest.fixture
def start_ranks() -> Iterator[Callable[..., Ranks]]:
    """Start a function of a file of programs on so many ranks, or on those of them that `only` names."""
    started: list[subprocess.Popen[str]] = []

    def start(
        function: str,
        size: int = 2,
        environ: Mapping[str, str] | None = None,
        programs: Path = PROGRAMS,
        only: Collection[int] | None = None,
    ) -> Ranks:
        cluster = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        ranks = [
            subprocess.Popen(
                [sys.executable, str(programs), function],
                env={
                    **os.environ,
                    **cluster,
                    "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
                    "NORTHBRIDGE_CPU_SIM_CHECK_COLLECTIVES": "1",
                    **(environ or {}),
                    "RANK": str(rank),
                    "WORLD_SIZE": str(size),
                    "OMP_NUM_THREADS": "1",
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in (range(size) if only is None else only)
        ]
        started.extend(ranks)
        return Ranks(ranks)

    yield start
    for rank in started:
        rank.kill()
        rank.wait()


@pytest.fixture
def on_ranks(start_ranks: Callable[..., Ranks]) -> Callable[..., list[str]]:
    """Run a function of rank_programs.py on so many ranks and return what each printed."""

    def run(function: str, size: int = 2, **options: Any) -> list[str]:
        ranks = start_ranks(function, size, **options)
        said = [ranks.said(rank) for rank in range(size)]
        assert [rank.returncode for rank in ranks.processes] == [0] * size, "\n".join(said)
        return said

    return run
