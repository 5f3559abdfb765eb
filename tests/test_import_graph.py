"""The structure of core and backends: no import circle, no import from a lower room of the core to a higher one."""

from __future__ import annotations

import ast
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest
from tests.import_graph import PACKAGES, ROOT, Import, imports_of, modules_of

ROOMS = (
    "untrusted",
    "errors",
    "process_record",
    "settings",
    "capabilities",
    "hook",
    "device",
    "collective",
    "bridge",
    "float8",
    "acceleration",
    "backend",
    "simulation",
    "processes",
    "contract",
    "flight_recorder",
    "launch",
    "autoload",
    "conformance",
    "discovery",
    "graphs",
    "lightning",
    "diagnostics",
    "cli",
)
"""The rooms of the core, the lowest first: each imports from those before it alone."""

NAMED_ONLY = {
    "northbridge": "the table of public names",
    "northbridge.autoload": "CONNECTORS",
    "northbridge_xpu.simulated": "the module that changes torch",
}
"""Modules whose strings name others that they do not need: each is resolved when somebody asks for it."""

NOUNS = {"grading", "lightning", "multiprocessing", "pickling", "recording", "sharding", "training", "unpickling"}
"""The last words of files that end in -ing and are nouns of the field."""


def read_imports(package: Path) -> list[Import]:
    modules = modules_of(package)
    return [
        each
        for module, file in modules.items()
        if module not in NAMED_ONLY
        for each in imports_of(module, file, modules)
    ]


def find_circle(imports: list[Import]) -> list[str]:
    """Return the modules of one import circle, the first again at its end; none where there is no circle."""
    graph: defaultdict[str, set[str]] = defaultdict(set)
    for each in imports:
        graph[each.importer].add(each.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle[::-1]
    return []


def climbs(imports: list[Import]) -> list[str]:
    """Return what there is to say of each import from a lower room of the core to a higher one."""
    found = []
    for each in imports:
        lower, higher = each.importer.split(".")[1], each.imported.split(".")[1]
        if ROOMS.index(higher) > ROOMS.index(lower):
            found.append(
                f"{each}: {higher!r} stands above {lower!r}. Interfaces describe and engines run: take the value as a"
                " parameter, or move the function to the room that runs it"
            )
    return found


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_no_circle(package: Path) -> None:
    imports = read_imports(package)

    circle = find_circle(imports)

    steps = [str(each) for a, b in pairwise(circle) for each in imports if (a, b) == (each.importer, each.imported)]
    assert not circle, "\n".join([*steps, "move what both need into a module below them, or hand it in as a parameter"])


def test_no_import_goes_up() -> None:
    assert climbs(read_imports(PACKAGES[0])) == []


def test_rooms_are_those_of_the_core() -> None:
    found = {entry.stem for entry in PACKAGES[0].iterdir() if entry.suffix == ".py" or (entry / "__init__.py").exists()}

    assert found - {"__init__"} == set(ROOMS)


@pytest.mark.parametrize(
    "text",
    [
        "from northbridge.high import f",
        "def f():\n    import northbridge.high",
        "import northbridge\nnorthbridge.high.f()",
        "NAME = 'northbridge.high:f'",
        "if TYPE_CHECKING:\n    import northbridge.high",
    ],
)
def test_every_kind_of_import_counts(tmp_path: Path, text: str) -> None:
    package = tmp_path / "northbridge"
    package.mkdir()
    (package / "low.py").write_text(text)
    (package / "high.py").write_text("from northbridge.low import g")

    assert find_circle(read_imports(package)) in (
        ["northbridge.low", "northbridge.high", "northbridge.low"],
        ["northbridge.high", "northbridge.low", "northbridge.high"],
    )


@pytest.mark.parametrize("text", ['"""See northbridge.high."""', "NAME = 'northbridge'"])
def test_what_runs_nothing_does_not_count(tmp_path: Path, text: str) -> None:
    package = tmp_path / "northbridge"
    package.mkdir()
    (package / "low.py").write_text(text)
    (package / "high.py").write_text("from northbridge.low import g")

    assert find_circle(read_imports(package)) == []


def test_a_climb_says_how_the_design_avoids_it() -> None:
    up = Import("northbridge.device", 7, "northbridge.discovery.loaded", Path("device.py"))

    (told,) = climbs([up])

    assert told == (
        "device.py:7 imports northbridge.discovery.loaded: 'discovery' stands above 'device'. Interfaces describe and"
        " engines run: take the value as a parameter, or move the function to the room that runs it"
    )


def test_files_are_named_by_nouns() -> None:
    named = [file for package in PACKAGES for file in package.rglob("*") if file.suffix in (".py", ".cpp", ".h")]

    last_words = {file.relative_to(ROOT): file.stem.rpartition("_")[2] for file in named}
    gerunds = [str(file) for file, word in last_words.items() if word.endswith("ing") and word not in NOUNS]

    assert gerunds == [], "name the thing that the file is about, not what it does"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_class_names_are_unique(package: Path) -> None:
    places = defaultdict(list)
    for file in package.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{file.relative_to(ROOT)}:{node.lineno}")

    assert {name: found for name, found in places.items() if len(found) > 1} == {}
