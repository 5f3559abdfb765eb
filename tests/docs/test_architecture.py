"""ARCHITECTURE.md: its rooms are those of the tree and of imports, and its walks are those that values take."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import os
import pkgutil
import pydoc
import re
import sys
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest
from importlinter.api import read_configuration
from tests.scripts import run_python

from northbridge import _HOME

ROOT = Path(__file__).parents[2]
CONTRACTS = {each["id"]: each for each in read_configuration(str(ROOT / "pyproject.toml"))["contracts_options"]}
PACKAGES = [package for place in ("*", "backends/*") for package in sorted(ROOT.glob(f"{place}/northbridge*"))]
FILES = {
    ".".join(file.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"): file
    for package in PACKAGES
    for file in package.rglob("*.py")
}
SIMULATED = {module for module in FILES if module.endswith((".simulated", ".simulated.machine"))}
RESOLVED_LATER = {"northbridge", "northbridge.autoload", *SIMULATED}
"""Modules whose strings name what they do not need: the public names, CONNECTORS, tables and records."""

PAGE = (ROOT / "ARCHITECTURE.md").read_text()
SECTIONS = dict(re.findall(r"^### (.*?),.*\n\n((?:.+\n)+)", PAGE, re.MULTILINE))
"""The lines of each walk, by what its title says before the comma."""

ROOMS = CONTRACTS["core"]["layers"][::-1]
"""The lowest first."""

OF_A_NEWER_PYTHON = pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no qualified name")

FOLLOW = """
import json, re, sys, types, warnings
warnings.simplefilter("ignore")
import torch
from northbridge.backend import Backend
from northbridge.discovery.installed import Plugin

def follow(run, is_followed):
    stations, entries, ended = [], [], []
    def note(frame, event, arg):
        code, module = frame.f_code, frame.f_globals.get("__name__", "")
        station = f"{module}.{code.co_qualname}".replace(".<locals>", "")
        if event == "return" and station == LAST:
            ended.append(station)
        if event != "call" or not (module.startswith("northbridge.") or station == ALL_REDUCE):
            return
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if station == VARIABLES or not any(is_followed(frame.f_locals.get(name)) for name in names):
            return
        if frame.f_back.f_globals.get("__name__") != module:
            entries.append(station)
        if not ended:
            stations.append(station)
    sys.setprofile(note)
    run()
    sys.setprofile(None)
    print("walk", json.dumps([stations, entries]))

LAST = "northbridge.lightning.accelerators.accelerator.AcceleratorQuestions.get_parallel_devices"
ALL_REDUCE = "torch.distributed.distributed_c10d.all_reduce"
VARIABLES = "northbridge.settings._name"  # gets the text of NORTHBRIDGE_SIMULATE, which is not the Trainer's
"""

WALKS = {
    'The string "hpu"': """
from lightning.pytorch import Trainer
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
follow(
    lambda: Trainer(accelerator="hpu", devices=1, **quiet),
    lambda value: value == "hpu" if isinstance(value, str)
    else isinstance(value, Backend) or getattr(value, "backend_name", "") == "hpu",
)
""",
    "A tensor's all-reduce": """
from lightning.fabric import Fabric
fabric = Fabric(accelerator="hpu", devices=1, strategy="ddp")
fabric.launch()
tensor = torch.ones(2, device=fabric.device)
follow(lambda: fabric.all_reduce(tensor), lambda value: isinstance(value, torch.Tensor))
""",
    "A plugin": """
import northbridge
follow(
    lambda: northbridge.get("hpu"),
    lambda value: value == "hpu" if isinstance(value, str)
    else isinstance(value, (Plugin, Backend, types.ModuleType)),
)
""",
}

PASSED_BY = re.compile(r"\.(is_|has_|may_|reject_|tell_|note|describe|_[a-z]|__|<)|\.(disables|distribution|version)$")
"""Functions that are asked about the value, or reject it, and do not hand it on."""

MOST_CLIMBS = 5


@functools.cache
def walk_of(title: str) -> tuple[list[str], list[str]]:
    """Return the functions that get the value, in order and each time, and those of them that other modules call.

    The first list ends with the walk, the second with the Trainer's or Fabric's call.
    """
    child = run_python("-c", FOLLOW + WALKS[title], environ={**os.environ, "NORTHBRIDGE_SIMULATE": "hpu"})
    assert child.returncode == 0, child.stderr

    (line,) = re.findall("^walk (.*)$", child.stdout, re.MULTILINE)
    stations, entries = json.loads(line)
    return stations, entries


def climbs(stations: list[str]) -> list[str]:
    """Return each step from a lower room of the core to a higher one."""
    rooms = [ROOMS.index(each.split(".")[1]) for each in stations]
    steps = zip(pairwise(stations), pairwise(rooms), strict=True)
    return [f"{low} -> {high}" for (low, high), (before, after) in steps if after > before]


def section(title: str, stations: list[str]) -> str:
    """Return the lines of a walk for the page; a station that is new there gets its docstring's first line."""
    told = dict(re.findall(r"^\d+\. `(.*?)`: (.*)$", SECTIONS[title], re.MULTILINE))
    said = [told.get(each) or pydoc.splitdoc(inspect.getdoc(pkgutil.resolve_name(each)) or "")[0] for each in stations]
    return "".join(
        f"{number}. `{each}`: {what}\n" for number, (each, what) in enumerate(zip(stations, said, strict=True), 1)
    )


@OF_A_NEWER_PYTHON
@pytest.mark.parametrize("title", WALKS)
def test_a_walk_is_the_one_that_is_taken(title: str) -> None:
    stations = [each for each in dict.fromkeys(walk_of(title)[0]) if not PASSED_BY.search(each)]

    found = section(title, stations)

    assert SECTIONS[title] == found, f"write this into ARCHITECTURE.md:\n{found}"


@OF_A_NEWER_PYTHON
def test_a_name_becomes_a_backend_once() -> None:
    """Nothing is left out: who only asks or rejects is counted too."""
    stations, entries = walk_of('The string "hpu"')

    loaded = [each for each in entries if each.startswith("northbridge.discovery.loaded.")]
    assert entries.count("northbridge.discovery.declared.get") == 1
    assert loaded == ["northbridge.discovery.loaded.load"]
    assert len(climbs(stations)) <= MOST_CLIMBS, "\n".join(climbs(stations))


def test_its_rooms_are_those_of_the_core_in_order() -> None:
    drawn = re.findall(r"^    (\w+)(?:/|\.py) ", PAGE, re.MULTILINE)

    assert drawn == CONTRACTS["core"]["layers"]


def test_every_file_that_it_names_exists() -> None:
    folders = [ROOT, ROOT / "core" / "northbridge", ROOT / "core" / "northbridge" / "lightning"]
    of_backends = {"__init__.py", "contract.toml", "simulated/", "build/", "faults/", "csrc/"}
    named = set(re.findall(r"`([\w/]+(?:\.py|\.toml|/))`", PAGE)) - of_backends

    assert [each for each in sorted(named) if not any(Path(folder, each).exists() for folder in folders)] == []


# --- What import-linter does not see: names in strings, and the package that ``from package import`` runs


@functools.cache
def named(module: str) -> set[str]:
    """Return the modules that ``module`` imports, or names in a string other than a docstring."""
    tree = ast.parse(FILES[module].read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    names: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(package), names=found):
                names += [package, *(f"{package}.{each.name}" for each in found)]
            case ast.Import(names=found):
                names += [each.name for each in found]
            case ast.Constant(value=str(text)) if module not in RESOLVED_LATER and id(node) not in docstrings:
                names += re.findall(r"\bnorthbridge(?:_\w+)?(?:\.\w+)+", text)
    homes = (_HOME.get(name.removeprefix("northbridge."), name).split(".") for name in names)
    paths = ([".".join(parts[:length]) for length in range(len(parts), 0, -1)] for parts in homes)
    return {next((path for path in each if path in FILES), module) for each in paths} - {"northbridge", module}


def test_no_circle() -> None:
    TopologicalSorter({module: named(module) for module in FILES}).prepare()


@pytest.mark.parametrize("contract", ["distributions", "core", "suite"])
def test_no_name_goes_up(contract: str) -> None:
    prefix = "".join(f"{each}." for each in CONTRACTS[contract].get("containers", ()))
    layers = enumerate(CONTRACTS[contract]["layers"][::-1])
    floors = {f"{prefix}{name}": floor for floor, layer in layers for name in layer.split(" | ")}
    floor = {each: floors.get(".".join(each.split(".")[: prefix.count(".") + 1]), -1) for each in FILES}

    pairs = ((each, name) for each in FILES for name in named(each) if -1 < floor[each] < floor[name])
    assert [each for each in pairs if each[0] != "northbridge.conformance"] == []
