"""Passages that two Python files have in common, whatever their names are called."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


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
