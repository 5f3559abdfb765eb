"""The vendors' backends are the difference between their chips: no passage of code stands in both."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import pytest

BACKENDS = Path(__file__).parents[3] / "backends"
VENDORS = ("hpu", "npu", "sdaa", "xpu")
LIMITS = {
    "hpu": 1585,
    "npu": 330,
    "sdaa": 390,
    "xpu": 150,
}  # hpu: 1260, and Neural Compressor; sdaa: 350, and the names of its DeepSpeed and FSDP classes
OPTIONAL = {"acceleration.py", "compiler.py", "data.py", "float8.py", "neural_compressor.py"}
"""Files of a chip that has more than torch's own."""

SUCCESSION = {"trainer.py", "fabric.py"}
"""Files of a chip whose vendor had a package for Lightning, with its names."""


def package(name: str) -> Path:
    return BACKENDS / name / f"northbridge_{name}"


def sources(name: str) -> list[Path]:
    return sorted(package(name).rglob("*.py"))


@pytest.mark.parametrize(("one", "other"), list(combinations(VENDORS, 2)))
def test_no_six_lines_stand_in_both_renamed_or_not(one: str, other: str) -> None:
    twice = [
        places
        for mine in sources(one)
        for theirs in sources(other)
        for places in common_passages(statements(mine), statements(theirs), lines=6)
    ]

    assert twice == []


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


@pytest.mark.parametrize(("text", "twice"), [(ONE, 1), (RENAMED, 1), (OTHER, 0)], ids=["same", "renamed", "other"])
def test_a_passage_is_found_under_other_names(text: str, twice: int, tmp_path: Path) -> None:
    files = [tmp_path / "one.py", tmp_path / "other.py"]
    for file, code in zip(files, (ONE, text), strict=True):
        file.write_text(code)

    found = common_passages(*map(statements, files), lines=6)

    assert len(found) == twice
    assert found == [(f"{files[0]}:4", f"{files[1]}:4")][:twice]


@dataclass(frozen=True)
class Statement:
    """One statement, or the head of one that holds others: where it stands, how long it is, and what it says."""

    file: Path
    line: int
    length: int
    said: str


class _Unnamed(ast.NodeTransformer):
    """Takes away what may be renamed: names of one's own and texts. What is asked of others keeps its name."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.copy_location(ast.Name("_", node.ctx), node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.copy_location(ast.Constant(type(node.value).__name__), node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return ast.copy_location(ast.Constant("str"), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        # A field that is declared keeps its name, as it does where it is asked for.
        return node if node.value is None else self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return self.generic_visit(ast.copy_location(ast.arg("_", node.annotation), node))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = "_"
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = "_"
        return self.generic_visit(node)


def statements(file: Path) -> list[Statement]:
    """Return the statements of ``file`` in order, without imports and docstrings."""
    tree = _Unnamed().visit(ast.parse(file.read_text()))
    return list(_walk(file, tree.body))


def _walk(file: Path, body: list[ast.stmt]) -> Iterator[Statement]:
    for node in body:
        if isinstance(node, (ast.Import, ast.ImportFrom)) or _is_text(node):
            continue
        inner = [each for part in ("body", "handlers", "orelse", "finalbody") for each in getattr(node, part, [])]
        if not inner:
            yield Statement(file, node.lineno, _length(node), ast.dump(node))
            continue
        yield Statement(file, node.lineno, _length(node, until=min(each.lineno for each in inner)), _head(node))
        yield from _walk(file, [each for each in inner if isinstance(each, ast.stmt)])
        for handler in (each for each in inner if isinstance(each, ast.ExceptHandler)):
            yield from _walk(file, handler.body)


def _length(node: ast.stmt, until: int | None = None) -> int:
    """Return on how many lines, before the line ``until``, something other than text begins: texts may differ."""
    begun = {
        each.lineno
        for each in ast.walk(node)
        if isinstance(each, (ast.stmt, ast.expr, ast.keyword, ast.arg)) and not isinstance(each, ast.Constant)
    }
    return len({line for line in begun if until is None or line < until} | {node.lineno})


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _head(node: ast.stmt) -> str:
    parts = ((name, value) for name, value in ast.iter_fields(node) if name not in _INNER)
    return type(node).__name__ + ";".join(
        f"{name}={[ast.dump(each) if isinstance(each, ast.AST) else each for each in value]}"
        if isinstance(value, list)
        else f"{name}={ast.dump(value) if isinstance(value, ast.AST) else value}"
        for name, value in parts
    )


_INNER = ("body", "handlers", "orelse", "finalbody", "type_comment")


def common_passages(one: list[Statement], other: list[Statement], *, lines: int) -> list[tuple[str, str]]:
    """Return where both have a passage of at least ``lines`` lines that says the same, statement for statement."""
    found = []
    for start in range(len(one)):
        for place in range(len(other)):
            if start and place and one[start - 1].said == other[place - 1].said:
                continue  # a part of a longer one
            length, mine, theirs = 0, 0, 0
            while (
                start + length < len(one)
                and place + length < len(other)
                and one[start + length].said == other[place + length].said
            ):
                mine += one[start + length].length
                theirs += other[place + length].length
                length += 1
            if min(mine, theirs) >= lines:
                found.append((f"{one[start].file}:{one[start].line}", f"{other[place].file}:{other[place].line}"))
    return found
