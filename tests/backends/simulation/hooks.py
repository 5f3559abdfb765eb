"""pytest's hooks: for the tests that look at all others, and those that look at each line, file or script of a chip."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping

import pytest
from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.room import ROOM

from northbridge_cpu_sim import Record


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
