"""The import graph of this repository, from the syntax trees: late imports count, and so do names in strings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from northbridge import _HOME

ROOT = Path(__file__).parents[1]
PACKAGES = (
    ROOT / "core" / "northbridge",
    ROOT / "conformance" / "northbridge_conformance",
    *sorted((ROOT / "backends").glob("*/northbridge_*")),
)
_DOTTED = re.compile(r"\bnorthbridge(?:_\w+)?(?:\.\w+)+")


@dataclass(frozen=True)
class Import:
    """One import: the importing module, the line in its file, and the module that it imports."""

    importer: str
    line: int
    imported: str
    file: Path

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.imported}"


def modules_of(package: Path) -> dict[str, Path]:
    """Return every module of ``package`` by its dotted name; the name of a package stands for its ``__init__.py``."""
    found = {}
    for file in sorted(package.rglob("*.py")):
        parts = file.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports_of(module: str, file: Path, modules: dict[str, Path]) -> Iterator[Import]:
    """Yield each import of one of ``modules`` in ``file``, late ones and those of type checkers too.

    ``northbridge.get`` is an import of the module that has the public name ``get``; so is a string with its path.
    """
    tree = ast.parse(file.read_text())
    for name, line in _names(tree, _docstrings(tree)):
        found = _module_of(name, modules)
        if found is not None and found != module:
            yield Import(module, line, found, file)


def _names(node: ast.AST, docstrings: set[int]) -> Iterator[tuple[str, int]]:
    match node:
        case ast.Import(names=names, lineno=line):
            yield from ((alias.name, line) for alias in names)
        case ast.ImportFrom(module=module, names=names, lineno=line):
            yield from ((f"{module}.{alias.name}", line) for alias in names)
        case ast.Attribute(value=ast.Name(id="northbridge"), attr=name, lineno=line):
            yield f"northbridge.{name}", line
        case ast.Constant(value=str(text), lineno=line) if id(node) not in docstrings:
            yield from ((name, line) for name in _DOTTED.findall(text))
    for child in ast.iter_child_nodes(node):
        yield from _names(child, docstrings)


def _docstrings(tree: ast.Module) -> set[int]:
    statements = (node for node in ast.walk(tree) if isinstance(node, ast.Expr))
    return {id(each.value) for each in statements if isinstance(each.value, ast.Constant)}


def _module_of(name: str, modules: dict[str, Path]) -> str | None:
    package, _, public = name.partition(".")
    if package == "northbridge" and public in _HOME:
        name = _HOME[public]
    while name not in modules:
        name, dot, _ = name.rpartition(".")
        if not dot:
            return None
    return None if name == "northbridge" else name
