"""What the tests of the simulated chip share: the loaded chip, fresh processes, and ranks."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import pytest

LIMIT_S = 120.0
PROGRAMS = Path(__file__).with_name("rank_programs.py")


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
def on_ranks() -> Callable[..., list[str]]:
    """Run a function of rank_programs.py on so many ranks and return what each printed."""

    def run(function: str, size: int = 2, environ: Mapping[str, str] | None = None) -> list[str]:
        cluster = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
        ranks = [
            subprocess.Popen(
                [sys.executable, str(PROGRAMS), function],
                env={
                    **os.environ,
                    **cluster,
                    **(environ or {}),
                    "RANK": str(rank),
                    "WORLD_SIZE": str(size),
                    "OMP_NUM_THREADS": "1",
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for rank in range(size)
        ]
        try:
            said = [rank.communicate(timeout=LIMIT_S)[0] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
        assert [rank.returncode for rank in ranks] == [0] * size, "\n".join(said)
        return said

    return run


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
