"""The room of a run, and pytest's hooks for tests that look at all others, or at each line or file of a chip.

In the room are the record of what the run's processes touch, and the servers that they stand on.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from tests.backends.simulation.chip import SimChip

from northbridge_cpu_sim import Record

ROOM = Path(tempfile.mkdtemp(prefix="northbridge-sim-"))


def enter(chip: SimChip) -> None:
    """Have every process of every test write down what it touches, on a server that nobody else stands on.

    It is for the top of a conftest.py: before torch is imported, which is when the stand-ins are put in place.
    """
    os.environ[chip.record.VARIABLE] = str(ROOM / "record")
    if chip.server is not None:
        # This process uses a server of its own, so that the card that it takes is not one of the tests'.
        os.environ.update(chip.on_server(ROOM / "own"))
        chip.server()
        os.environ.update(chip.on_server(ROOM / "server"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "shows(*names): lines of contract.toml, no symbols, that the test shows")
    config.addinivalue_line("markers", "of_the_whole_run: looks at what all other tests left behind; runs last")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(ROOM, ignore_errors=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    last = [item for item in items if item.get_closest_marker("of_the_whole_run")]
    others = [item for item in items if item not in last]
    if last and not _are_whole(config, others, last):
        config.hook.pytest_deselected(items=last)
        last = []
    items[:] = others + last


def _are_whole(config: pytest.Config, others: list[pytest.Item], last: list[pytest.Item]) -> bool:
    """Return whether every test of the chip is going to run: its own, and those that every chip has."""
    if config.option.keyword or config.option.markexpr or any("::" in argument for argument in config.args):
        return False
    shared = last[0].path.parent
    folders = (shared, shared.with_name(os.environ["NORTHBRIDGE_SIMULATE"]))
    files = {file for folder in folders for file in folder.rglob("test_*.py")}
    return files <= {item.path for item in others}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    yield
    # The test has passed, or the line above has raised.
    for marker in item.iter_markers("shows"):
        for name in marker.args:
            Record().note(name, "show")


def give_parts(metafunc: pytest.Metafunc, chip: SimChip) -> None:
    """Run a test once for each part of ``chip``, where it asks for one by the name of a parameter."""
    parts: dict[str, Callable[[], Mapping[str, object]]] = {
        "source_file": lambda: {file.name: file for file in sorted(chip.folder.glob("*.py"))},
        "offered_symbol": lambda: {symbol.name: symbol for symbol in chip.offered},
        "titled_script": lambda: {name: name for name in chip.page.scripts},
        "script_command": lambda: {command: command for command in chip.page.shown if " python " in command},
    }
    for name in parts.keys() & set(metafunc.fixturenames):
        found = parts[name]()
        metafunc.parametrize(name, list(found.values()), ids=list(found))
