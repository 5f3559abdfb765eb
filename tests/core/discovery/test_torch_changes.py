"""Nothing of torch is changed but what the table names, by the syntax trees."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest
import torch
from tests.core.lightning.corrections.test_sole_table import writes_to_torch

from northbridge.discovery.torch_changes import TORCH_CHANGES, TorchChange

CORE = Path(__file__).parents[3] / "core/northbridge"
PARTS_OF_FUNCTIONS = ("__defaults__", "__kwdefaults__", "__code__", "__globals__")
PARTS_OF_LIBRARIES = ("Library", "impl", "register_kernel", "register_autograd", "custom_op", "define")

OF_OTHERS = {
    "lightning.corrections.table:_apply": "Lightning's modules",
    "discovery.simulated:_place": "packages that looked for a vendor's before the stand-ins were there",
}
"""Modules that only a run knows by name."""


def changes_in(tree: ast.Module) -> set[str]:
    """Return the functions of ``tree`` that change torch: ``function``, or ``Class.function``."""
    lines = {*writes_to_torch(tree), *_lines_that_change(tree)}
    found = dict.fromkeys(lines, "<module>")
    for name, first, last in _functions(tree):
        found |= {line: name for line in lines if first <= line <= last}
    return set(found.values())


def _lines_that_change(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and _changes_torch(node):
            yield node.lineno


def _changes_torch(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
        return node.attr in PARTS_OF_FUNCTIONS
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    called = ast.unparse(node.func)
    is_setting = called.startswith(("torch.use_", "torch.set_default", "torch.set_float", "torch.set_deterministic"))
    return is_setting or (node.func.attr in PARTS_OF_LIBRARIES and "librar" in called.lower())


def _functions(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    for node in tree.body:
        for each in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
                owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
                yield f"{owner}{each.name}", each.lineno, each.end_lineno or each.lineno


def test_every_change_of_torch_is_in_the_table() -> None:
    found = set()
    for path in CORE.rglob("*.py"):
        module = ".".join(path.relative_to(CORE).with_suffix("").parts)
        found |= {f"{module}:{each}" for each in changes_in(ast.parse(path.read_text()))}

    assert found - set(OF_OTHERS) == {row.place for row in TORCH_CHANGES}


@pytest.mark.parametrize("row", TORCH_CHANGES, ids=lambda row: row.changed)
def test_a_row_names_what_torch_has_why_and_how_it_ends(row: TorchChange) -> None:
    library, _, operator = row.changed.partition("::")
    if operator:
        known: list[str] = torch._C._dispatch_get_all_op_names()
        assert any(each.startswith(f"{library}::{operator.rstrip('*')}") for each in known)
    else:
        assert resolve_name(row.changed.partition(".*")[0]) is not None
    assert inspect.isfunction(inspect.unwrap(resolve_name(f"northbridge.{row.place}")))
    assert min(len(text.split()) for text in (row.reason, row.condition)) > 3
    assert row.undoing.startswith(("never: ", "by ", "after "))


@pytest.mark.parametrize(
    ("code", "found"),
    [
        *(
            (code, {"change"})
            for code in (
                "import torch\ndef change():\n    torch.load = print",
                "def change():\n    from torch.nn import functional\n    functional.relu = print",
                "import torch\ndef change():\n    setattr(torch.Tensor, 'to', print)",
                "import torch\ndef change():\n    vars(torch)['load'] = print",
                "from unittest.mock import patch\ndef change():\n    patch('torch.load', print).start()",
                "from importlib import import_module\ndef change():\n    import_module('torch.cuda').count = print",
                "import sys\ndef change():\n    sys.modules['torch.cuda'].is_available = print",
                "def change(function):\n    function.__defaults__ = ()",
                "import torch\ndef change():\n    library = torch.library.Library('aten', 'IMPL')",
                "def change(library):\n    library.impl('add', print, 'CPU')",
                "import torch\ndef change():\n    torch.use_deterministic_algorithms(True)",
                "import torch\ndef change():\n    torch.set_default_device('cpu')",
            )
        ),
        # Writes to something else.
        ("import torch\nweights = torch.ones(1)\nweights.mark = 1", set()),
        ("import lightning\nlightning.pytorch.Trainer.fit = print", set()),
        ("def change(module):\n    module.training = True", set()),
    ],
)
def test_a_planted_change_is_found(code: str, found: set[str]) -> None:
    assert changes_in(ast.parse(code)) == found
