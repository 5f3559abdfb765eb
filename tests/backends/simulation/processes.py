"""Fixtures for every simulated chip: fresh processes and ranks, and the server that they stand on."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from tests.backends.simulation.chip import SimChip
from tests.scripts import Ran, fork_script, wait

import northbridge
from northbridge.settings import WRITTEN
from northbridge_conformance.runs.processes import reserve_port, start_afresh as run_afresh
from northbridge_cpu_sim import Server

ROOT = Path(__file__).parents[3]

Begin = Callable[..., "Callable[[], Ran]"]
Run = Callable[..., str]
OnRanks = Callable[..., "list[str]"]


@pytest.fixture(scope="session")
def loaded(sim: SimChip) -> ModuleType:
    """``torch.<type>`` of this process, with the chip loaded."""
    northbridge.load(sim.name)
    import torch

    module: ModuleType = torch.get_device_module(sim.name)
    return module


def variables(chip: SimChip) -> set[str]:
    """Return the vendor's variables."""
    return {symbol.name for symbol in chip.contract.symbols if symbol.kind == "environment"}


def clean_environment(chip: SimChip) -> dict[str, str]:
    """Return the environment of a user who has set none of the vendor's variables."""
    vendors = variables(chip)
    # This process may have a card, and Northbridge has then written the variables that name it.
    written = {WRITTEN + name for name in vendors}
    clean = {name: value for name, value in os.environ.items() if name not in vendors | written}
    return {**clean, "NORTHBRIDGE_SIMULATE": chip.name}


@pytest.fixture
def environment(sim: SimChip, tmp_path: Path) -> dict[str, str]:
    """The environment of a user who has set none of the vendor's variables, on a server of the test's own."""
    return {**clean_environment(sim), **sim.on_server(tmp_path / "server")}


@pytest.fixture
def server(sim: SimChip, tmp_path: Path) -> Server:
    """The server of the test's processes, looked at from outside; for a chip that has one."""
    return Server(tmp_path / "server", sim.cards)


@pytest.fixture
def begin(sim: SimChip, environment: dict[str, str], tmp_path: Path) -> Begin:
    """Begin a program after the lines ``first``, and return what waits for its end.

    It is the fork of a process that has imported torch and nothing of the chip's, unless it is to be started
    ``afresh``: where it is about what is imported first.
    """
    vendors = variables(sim)
    # Where a program finds this repository's tests, as one does that is started here.
    whole = {**environment, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}

    def begin(program: str, first: str, afresh: bool, **environ: str) -> Callable[[], Ran]:
        number = len(list(tmp_path.glob("program-*.py")))
        script, printed = (tmp_path / f"program-{number}.{end}" for end in ("py", "txt"))
        script.write_text(first + textwrap.dedent(program))
        given = {**whole, **environ}
        with printed.open("wb") as output:
            if afresh:
                process = run_afresh([str(script)], given, Path.cwd(), output)
            else:
                process = fork_script(
                    script, folder=Path.cwd(), output=output, environ=given, late=vendors, imported=()
                )
        return lambda: wait(process, script, printed)

    return begin


@pytest.fixture
def run(sim: SimChip, begin: Begin) -> Run:
    """Run a program and return what it printed; its failure is the test's. Where nothing comes first, it is afresh."""

    def run(program: str, *, first: str = sim.imports, afresh: bool = False, **environ: str) -> str:
        ran = begin(program, first, afresh or not first, **environ)()
        assert ran.status == 0, ran.said
        return ran.said

    return run


@pytest.fixture
def on_ranks(sim: SimChip, begin: Begin) -> OnRanks:
    """Run a program on so many ranks, which share a server, and return what each printed, without warnings."""
    group = f"import torch.distributed as dist\ndist.init_process_group({sim.collective!r})\n"

    def on_ranks(program: str, size: int = 2, first: str = sim.imports + group, **environ: str) -> list[str]:
        cluster = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(reserve_port()), "WORLD_SIZE": str(size)}
        cluster |= {"PYTHONWARNINGS": "ignore", **environ}
        places = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(size)]
        ranks = [begin(program, first, False, **{**cluster, **place}) for place in places]
        ended = [rank() for rank in ranks]
        assert [each.status for each in ended] == [0] * size, "\n".join(each.said for each in ended)
        return [each.said for each in ended]

    return on_ranks
