"""A simulated server, fresh processes and ranks; and the record of what this run touches of the vendor's software."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import northbridge_hpu
from northbridge.contract import Contract
from northbridge_hpu.simulated import machine, record

HERE = Path(__file__).parent
BACKEND = Path(northbridge_hpu.__file__).parent
CONTRACT = Contract.read(BACKEND / "contract.toml", backend="hpu")
ROOM = Path(tempfile.mkdtemp(prefix="northbridge-hpu-"))

LIMIT_S = 120.0
IMPORT = "import torch\nimport habana_frameworks.torch\nimport habana_frameworks.torch.core as htcore\n"
GROUP = "import torch.distributed as dist\ndist.init_process_group('hccl')\n"

Start = Callable[..., "subprocess.Popen[str]"]
Run = Callable[..., str]
OnRanks = Callable[..., "list[str]"]

# Before torch is imported, which is when the stand-ins are put in place, and for every process of every test.
os.environ[record.VARIABLE] = str(ROOM / "record")
# This process stands on a server of its own, which it knows from here on: the card that it takes is no other's.
os.environ["NORTHBRIDGE_HPU_SIM_SERVER"] = str(ROOM / "own")
machine.server()
os.environ["NORTHBRIDGE_HPU_SIM_SERVER"] = str(ROOM / "server")


@pytest.fixture(scope="session")
def hpu() -> ModuleType:
    """``torch.hpu`` of this process: a second-generation card, in eager mode."""
    import northbridge

    northbridge.load("hpu")
    import torch

    module: ModuleType = torch.get_device_module("hpu")
    return module


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a user who has set none of the vendor's variables, on a server of the test's own."""
    vendors = {symbol.name for symbol in CONTRACT.symbols if symbol.kind == "environment"}
    clean = {name: value for name, value in os.environ.items() if name not in vendors}
    return {**clean, "NORTHBRIDGE_SIMULATE": "hpu", "NORTHBRIDGE_HPU_SIM_SERVER": str(tmp_path / "server")}


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Start]:
    """Start a program in a Python of its own, after the vendor's import unless `first` says otherwise.

    What is still running at the end of the test is killed.
    """
    with contextlib.ExitStack() as started:

        def start(program: str, *, first: str = IMPORT, **environ: str) -> subprocess.Popen[str]:
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

    def run(program: str, *, first: str = IMPORT, **environ: str) -> str:
        process = start(program, first=first, **environ)
        said = process.communicate(timeout=LIMIT_S)[0]
        assert process.returncode == 0, said
        return said

    return run


@pytest.fixture
def on_ranks(start: Start) -> OnRanks:
    """Run a program on so many ranks, which share a server, and return what each printed, without warnings."""

    def on_ranks(program: str, size: int = 2, first: str = IMPORT + GROUP, **environ: str) -> list[str]:
        cluster = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": str(size)}
        cluster |= {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", **environ}
        places = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(size)]
        ranks = [start(program, first=first, **{**cluster, **place}) for place in places]
        said = [rank.communicate(timeout=LIMIT_S)[0] for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0] * size, "\n".join(said)
        return said

    return on_ranks


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "shows(*names): lines of contract.toml, no symbols, that the test shows")
    config.addinivalue_line("markers", "of_the_whole_run: looks at what all other tests left behind; runs last")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(ROOM, ignore_errors=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    last = [item for item in items if item.get_closest_marker("of_the_whole_run")]
    others = [item for item in items if item not in last]
    if last and not _is_whole(config, others):
        config.hook.pytest_deselected(items=last)
        last = []
    items[:] = others + last


def _is_whole(config: pytest.Config, items: list[pytest.Item]) -> bool:
    """Return whether every test of this folder is going to run."""
    if config.option.keyword or config.option.markexpr or any("::" in argument for argument in config.args):
        return False
    return set(HERE.rglob("test_*.py")) <= {item.path for item in items}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    yield
    # The test has passed, or the line above has raised.
    for marker in item.iter_markers("shows"):
        for name in marker.args:
            record.note(name, "show")
