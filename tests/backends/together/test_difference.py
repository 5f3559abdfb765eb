"""The vendors' backends are the difference between their chips: no passage of code stands in both."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

import pytest

BACKENDS = Path(__file__).parents[3] / "backends"
VENDORS = ("hpu", "npu", "sdaa", "xpu")
# hpu: 1260, and Neural Compressor; sdaa: 350, and the names of its DeepSpeed and FSDP classes
LIMITS = {"hpu": 1585, "npu": 330, "sdaa": 390, "xpu": 150}
LINES = 5

OPTIONAL = {"acceleration.py", "compiler.py", "data.py", "float8.py", "neural_compressor.py"}
"""Files of a chip that has more than torch's own."""

SUCCESSION = {"trainer.py", "fabric.py"}
"""Files of a chip whose vendor had a package for Lightning, with its names."""


def package(name: str) -> Path:
    return BACKENDS / name / f"northbridge_{name}"


def sources(name: str) -> list[Path]:
    return sorted(package(name).rglob("*.py"))


@pytest.mark.parametrize(("one", "other"), list(combinations(VENDORS, 2)))
def test_no_passage_stands_in_both_renamed_or_not(one: str, other: str) -> None:
    mine, theirs = (passages(file.read_text() for file in sources(name)) for name in (one, other))

    assert mine & theirs == set()


@pytest.mark.parametrize(("one", "other"), list(combinations(VENDORS, 2)))
def test_both_have_the_same_files(one: str, other: str) -> None:
    files = [{each.name for each in package(name).iterdir() if each.name != "__pycache__"} for name in (one, other)]
    succeeds = all((package(name) / "trainer.py").exists() for name in (one, other))
    own = OPTIONAL if succeeds else OPTIONAL | SUCCESSION

    assert files[0] - own == files[1] - own


@pytest.mark.parametrize("name", VENDORS)
def test_simulations_have_the_same_files(name: str) -> None:
    files = {each.name for each in (package(name) / "simulated").iterdir()}

    assert {"__init__.py", "device.toml", "devices.py", "machine.py", "vendor_import.py"} <= files


@pytest.mark.parametrize("name", VENDORS)
def test_no_vendor_names_lightnings_other_package(name: str) -> None:
    """So a chip's proof leaves the tests of that package to cpu_sim's (one_namespace.py)."""
    other = re.compile("pytorch_lightning|lightning_fabric")

    assert [file.name for file in sources(name) if other.search(file.read_text())] == []


@pytest.mark.parametrize("name", VENDORS)
def test_real_chips_need_no_simulation(name: str) -> None:
    files = [file for file in sources(name) if "simulated" not in file.relative_to(package(name)).parts]

    assert [
        file
        for file in files
        if re.search(r"import.*(\bsimulated\b|_cpu_sim\b)|_(cpu_sim|simulated) import", file.read_text())
    ] == []


@pytest.mark.parametrize("name", VENDORS)
def test_a_backend_has_no_more_lines_than_it_may(name: str) -> None:
    files = [file for file in sources(name) if "simulated" not in file.relative_to(package(name)).parts]

    assert sum(len(file.read_text().splitlines()) for file in files) <= LIMITS[name]


ONE = """
import os

def read(path: str) -> dict[str, int]:
    "Return what a file says."
    found = {}
    for line in open(path):
        name, _, value = line.partition("=")
        if not value:
            raise ValueError(f"{line} says nothing")
        found[name] = int(value)
    return found
"""
RENAMED = ONE.replace("found", "kept").replace("line", "row").replace('"="', '":"').replace("read", "parse")
OTHER = ONE.replace("partition", "rpartition")


@pytest.mark.parametrize(("text", "is_same"), [(ONE, True), (RENAMED, True), (OTHER, False)])
def test_a_passage_is_found_under_other_names(text: str, is_same: bool) -> None:
    assert bool(passages([ONE]) & passages([text])) == is_same


class _Unnamed(ast.NodeTransformer):
    """Takes away what may be renamed: names of one's own and texts. What is asked of others keeps its name."""

    def visit_Import(self, node: ast.AST) -> None:
        return None

    visit_ImportFrom = visit_Import

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name("_", node.ctx)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant(type(node.value).__name__)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return ast.Constant("str")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        # A field that is declared keeps its name, as it does where it is asked for.
        return node if node.value is None else self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return self.generic_visit(ast.arg("_", node.annotation))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.ClassDef) -> ast.AST:
        node.name, node.decorator_list = "_", []
        return self.generic_visit(node)

    visit_ClassDef = visit_FunctionDef


def passages(texts: Iterable[str]) -> set[str]:
    """Return every passage of LINES lines, as Python lays out a line for each statement, or the head of one."""
    laid_out = (ast.unparse(_Unnamed().visit(ast.parse(text))).split("\n") for text in texts)
    filled = ([line.strip() for line in lines if line.strip()] for lines in laid_out)
    return {"\n".join(lines[at : at + LINES]) for lines in filled for at in range(len(lines) - LINES + 1)}
