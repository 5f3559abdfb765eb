"""Fixtures for every posing chip: fresh processes and ranks, and the server that they stand on.

A chip's ``conftest.py`` imports them, and has a fixture ``posed``, for the session, that returns the chip.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tests.backends.posed.chip import PosedChip
from tests.ports import free_port

import northbridge
from northbridge_cpu_sim import Server

LIMIT_S = 120.0

Start = Callable[..., "subprocess.Popen[str]"]
Run = Callable[..., str]
OnRanks = Callable[..., "list[str]"]


@pytest.fixture(scope="session")
def loaded(posed: PosedChip) -> ModuleType:
    """``torch.<type>`` of this process, with the chip loaded."""
    northbridge.load(posed.name)
    import torch

    module: ModuleType = torch.get_device_module(posed.name)
    return module


@pytest.fixture
def mode() -> dict[str, str]:
    """The variables of the mode that is tested; a chip that has several has a fixture of its own."""
    return {}


def variables(chip: PosedChip) -> set[str]:
    """Return the vendor's variables."""
    return {symbol.name for symbol in chip.contract.symbols if symbol.kind == "environment"}


def clean_environment(chip: PosedChip) -> dict[str, str]:
    """Return the environment of a user who has set none of the vendor's variables."""
    vendors = variables(chip)
    clean = {name: value for name, value in os.environ.items() if name not in vendors}
    return {**clean, "NORTHBRIDGE_SIMULATE": chip.name}


@pytest.fixture
def environment(posed: PosedChip, tmp_path: Path) -> dict[str, str]:
    """The environment of a user who has set none of the vendor's variables, on a server of the test's own."""
    return {**clean_environment(posed), **posed.on_server(tmp_path / "server")}


@pytest.fixture
def server(posed: PosedChip, tmp_path: Path) -> Server:
    """The server of the test's processes, looked at from outside; for a chip that has one."""
    return Server(tmp_path / "server", posed.cards)


@pytest.fixture
def start(posed: PosedChip, environment: dict[str, str]) -> Iterator[Start]:
    """Start a program in a Python of its own, after the vendor's import unless `first` says otherwise.

    What is still running at the end of the test is killed.
    """
    with contextlib.ExitStack() as started:

        def start(program: str, *, first: str = posed.imports, **environ: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, "-c", first + textwrap.dedent(program)],
                env={**environment, **environ},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            started.enter_context(process)  # which waits for it, once it has been killed
            started.callback(process.kill)
            return process

        yield start


@pytest.fixture
def run(start: Start) -> Run:
    """Run a program in a Python of its own and return what it printed; its failure is the test's."""

    def run(program: str, **options: str) -> str:
        process = start(program, **options)
        said = process.communicate(timeout=LIMIT_S)[0]
        assert process.returncode == 0, said
        return said

    return run


@pytest.fixture
def on_ranks(posed: PosedChip, start: Start) -> OnRanks:
    """Run a program on so many ranks, which share a server, and return what each printed, without warnings."""
    group = f"import torch.distributed as dist\ndist.init_process_group({posed.collective!r})\n"

    def on_ranks(program: str, size: int = 2, first: str = posed.imports + group, **environ: str) -> list[str]:
        cluster = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(size)}
        cluster |= {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", **environ}
        places = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(size)]
        ranks = [start(program, first=first, **{**cluster, **place}) for place in places]
        said = [rank.communicate(timeout=LIMIT_S)[0] for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0] * size, "\n".join(said)
        return said

    return on_ranks
