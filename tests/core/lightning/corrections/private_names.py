"""Find the private names of Lightning in our sources and in our classes."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGES = ("lightning", "pytorch_lightning", "lightning_fabric")


def is_private(name: str) -> bool:
    """Return True for ``_name``."""
    return name.startswith("_") and not name.startswith("__") and name != "_"


def private_names(folder: Path) -> set[str]:
    """Return the private names that the sources of Lightning in ``folder`` define: functions, classes, attributes."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
    return {name for name in found if is_private(name)}


def names_of_others(tree: ast.Module) -> set[str]:
    """Return the private names of objects other than ``self`` that ``tree`` reads, sets, imports or has as a string."""
    return {name for name in _names_of_others(tree) if is_private(name)}


def _names_of_others(tree: ast.Module) -> Iterator[str]:
    methods = [each for cls in ast.walk(tree) if isinstance(cls, ast.ClassDef) for each in cls.body]
    inside = {id(node) for each in methods for node in ast.walk(each)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not (id(node) in inside and _is_own(node.value)):
            yield node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES:
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # as for getattr()
            yield node.value


def _is_own(value: ast.expr) -> bool:
    if isinstance(value, ast.Name):
        return value.id in ("self", "cls")
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "super"


def relied_on(cls: Any) -> set[tuple[str, str]]:
    """Return the private names of Lightning that our class ``cls`` overrides, reads or sets, each with its owner.

    The owner is the nearest base of Lightning that defines the name, as ``module:Class``.
    """
    ours = [each for each in cls.__mro__ if each.__module__.partition("_")[0].startswith("northbridge")]
    bases = [each for each in cls.__mro__ if each.__module__.partition(".")[0] in PACKAGES]
    found = set()
    for name in {name for each in ours for name in _names_in(each)}:
        owner = next((each for each in bases if name in vars(each) or name in _stored(each)), None)
        if owner is not None and name != "_abc_impl":
            found.add((f"{owner.__module__}:{owner.__qualname__}", name))
    return found


def _names_in(cls: type) -> set[str]:
    names = {*vars(cls), *getattr(cls, "__annotations__", {})}
    names |= {node.attr for node in _nodes(cls) if isinstance(node, ast.Attribute) and _is_own(node.value)}
    return {name for name in names if is_private(name)}


def _stored(cls: type) -> set[str]:
    nodes = (node for node in _nodes(cls) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return {node.attr for node in nodes if _is_own(node.value)}


_trees: dict[type, list[ast.AST]] = {}


def _nodes(cls: type) -> list[ast.AST]:
    if cls not in _trees:
        try:
            source = textwrap.dedent(inspect.getsource(cls))
        except (OSError, TypeError):  # made at run time: its mixins have the source
            source = ""
        _trees[cls] = list(ast.walk(ast.parse(source)))
    return _trees[cls]
