"""What import-linter does not see: names in strings, and the package that ``from package import`` runs."""

from __future__ import annotations

import ast
import functools
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from importlinter.api import read_configuration

from northbridge import _HOME

ROOT = Path(__file__).parents[1]
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
