"""Nothing of Lightning's is replaced outside of the table, by the syntax trees.

A name holds a module or class of theirs if it was imported from there, or assigned, passed or returned within the
file from an expression that does: an attribute of one, ``namespace.module(…)``, ``type(…)``. A call makes an instance,
which may be written to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
TABLE = ROOT / "core/northbridge/lightning/corrections/table.py"
USERS_PROCESSES = ROOT / "conformance/northbridge_conformance/runs"
"""Files that stand for users' scripts may do what users do."""

STAND_INS_RECORD = ROOT / "backends/cpu_sim/northbridge_cpu_sim/simulation/record.py"
"""It gives the modules of a stand-in a class, by names that only a run knows."""

FOUND_TOO_EARLY = ROOT / "core/northbridge/discovery/simulated.py"
"""It tells packages that looked for a vendor's before the stand-ins were there; a simulation names them."""


PACKAGES = ("lightning", "pytorch_lightning", "lightning_fabric")
MODULE_CALLS = ("module", "fabric_module")
OF_A_NAMESPACE = ("connector", "accelerator_registry", "strategy_registry", "stock_class", "__class__")
SETTERS = ("setattr", "delattr")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def writes_to_lightning(tree: ast.Module) -> list[int]:
    """Return the lines that set, delete or patch an attribute of a module or class of Lightning's."""
    return _Search(tree, PACKAGES).writes()


def writes_to_torch(tree: ast.Module) -> list[int]:
    """Return the lines that set, delete or patch an attribute of a module or class of torch's."""
    return _Search(tree, ("torch",)).writes()


class _Search:
    def __init__(self, tree: ast.Module, packages: tuple[str, ...]) -> None:
        self.tree = tree
        self.packages = packages
        self.functions = {node.name: node for node in ast.walk(tree) if isinstance(node, Function)}
        self.returning: set[str] = set()
        self.held: dict[ast.AST, set[str]] = {scope: set() for scope in (tree, *self.functions.values())}
        before = -1
        while before != (before := self._count()):
            for scope in self.held:
                for node in self._nodes(scope):
                    self._learn(scope, node)

    def _count(self) -> int:
        return sum(map(len, self.held.values())) + len(self.returning)

    def _nodes(self, scope: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes of ``scope`` and not those of a function inside it."""
        todo = list(ast.iter_child_nodes(scope))
        while todo:
            node = todo.pop()
            yield node
            if not isinstance(node, Function):
                todo += ast.iter_child_nodes(node)

    def _learn(self, scope: ast.AST, node: ast.AST) -> None:
        held = self.held[scope]
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            for each in node.names:
                if (module or each.name).partition(".")[0] in self.packages and not getattr(node, "level", 0):
                    held.add((each.asname or each.name).partition(".")[0])
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(scope, target, node.value)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            self._bind(scope, node.target, node.value)
        elif isinstance(node, (ast.For, ast.comprehension)):
            self._bind(scope, node.target, node.iter)
        elif isinstance(node, ast.Return) and node.value is not None and isinstance(scope, Function):
            if self._is_lightnings(scope, node.value):
                self.returning.add(scope.name)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self.functions:
            called = self.functions[node.func.id]
            named = {argument.arg: argument for argument in (*called.args.args, *called.args.kwonlyargs)}
            given = [*zip(named, node.args, strict=False), *((each.arg or "", each.value) for each in node.keywords)]
            self.held[called] |= {name for name, value in given if self._is_lightnings(scope, value)}

    def _bind(self, scope: ast.AST, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for inner, each in zip(target.elts, value.elts, strict=False):
                self._bind(scope, inner, each)
        elif isinstance(target, ast.Name) and self._is_lightnings(scope, value):
            self.held[scope].add(target.id)

    def _is_lightnings(self, scope: ast.AST, value: ast.expr) -> bool:
        if isinstance(value, ast.Name):
            own = isinstance(scope, Function) and value.id in {each.arg for each in scope.args.args}
            return value.id in self.held[scope] or (not own and value.id in self.held[self.tree])
        if isinstance(value, ast.Attribute):
            is_namespaces = self.packages == PACKAGES and value.attr in OF_A_NAMESPACE
            return is_namespaces or self._is_lightnings(scope, value.value)
        if isinstance(value, ast.Subscript):
            if ast.unparse(value.value) == "sys.modules":
                return self._may_name(value.slice)
            return self._is_lightnings(scope, value.value)
        if isinstance(value, (ast.Tuple, ast.List)):
            return any(self._is_lightnings(scope, each) for each in value.elts)
        if isinstance(value, (ast.ListComp, ast.GeneratorExp)):
            return self._is_lightnings(scope, value.elt)
        if isinstance(value, ast.BoolOp):
            return any(self._is_lightnings(scope, each) for each in value.values)
        if isinstance(value, ast.IfExp):
            return self._is_lightnings(scope, value.body) or self._is_lightnings(scope, value.orelse)
        return isinstance(value, ast.Call) and self._answers_lightnings(scope, value)

    def _answers_lightnings(self, scope: ast.AST, call: ast.Call) -> bool:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        first = call.args[0] if call.args else None
        if name == "import_module" or ast.unparse(call.func) == "sys.modules.get":
            return first is not None and self._may_name(first)
        if name in MODULE_CALLS and self.packages == PACKAGES:
            return True
        if name == "type":
            return len(call.args) == 1
        if name in ("getattr", "vars", "list", "tuple", "next", "iter", "filter") and first is not None:
            return any(self._is_lightnings(scope, each) for each in call.args)
        return isinstance(call.func, ast.Name) and name in self.returning

    def writes(self) -> list[int]:
        """Return the lines of the writes."""
        return sorted(
            node.lineno
            for scope in self.held
            for node in self._nodes(scope)
            if isinstance(node, (ast.expr, ast.stmt)) and self._is_write(scope, node)
        )

    def _is_write(self, scope: ast.AST, node: ast.AST) -> bool:
        if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, (ast.Store, ast.Del)):
            written = ast.unparse(node)
            is_attribute = isinstance(node, ast.Attribute) or "__dict__" in written or "vars(" in written
            return is_attribute and self._is_lightnings(scope, node.value)
        if not isinstance(node, ast.Call):
            return False
        called = ast.unparse(node.func)
        first = node.args[0] if node.args else None
        if first is None:
            return False
        if called in SETTERS or called.endswith((".setattr", ".delattr", "patch.object")):
            return self._is_lightnings(scope, first)
        return (
            called.endswith("patch") and isinstance(first, ast.Constant) and str(first.value).startswith(self.packages)
        )

    def _may_name(self, module: ast.expr) -> bool:
        return not isinstance(module, ast.Constant) or str(module.value).partition(".")[0] in self.packages


def modules() -> Iterator[Path]:
    for room in ("core/northbridge", "backends"):
        yield from (path for path in (ROOT / room).rglob("*.py") if USERS_PROCESSES not in path.parents)


def test_the_table_alone_replaces() -> None:
    found = {path for path in modules() if writes_to_lightning(ast.parse(path.read_text()))}

    assert found == {TABLE, STAND_INS_RECORD, FOUND_TOO_EARLY}


@pytest.mark.parametrize(
    "planted",
    [
        "import lightning.pytorch as pl\npl.Trainer.fit = None",
        "from lightning_fabric.strategies import DDPStrategy as Stock\nsetattr(Stock, 'backward', print)",
        "from unittest.mock import patch\npatch('lightning.pytorch.Trainer.fit', print).start()",
        "from unittest import mock\nfrom lightning import Trainer\nmock.patch.object(Trainer, 'fit', print).start()",
        "def correct(namespace):\n    module = namespace.fabric_module('cli')\n    module._get_num_processes = print",
        "def correct(namespace):\n    owner = getattr(namespace.connector, 'x')\n    vars(owner)['y'] = print",
        "def correct(namespace):\n    _hook(namespace.accelerator_registry)\ndef _hook(it):\n    it.register = print",
        "def correct(namespace):\n    for each in (namespace.strategy_registry,):\n        each.register = print",
        "def correct(namespace):\n    _of(namespace).x = 1\ndef _of(namespace):\n    return namespace.module('cli')",
        "def correct(module, namespace):\n    for each in getattr(namespace.module('x'), 'p'):\n        each.type = 1",
        "def correct(trainer):\n    type(trainer).fit = print",
        "class Mixin:\n    def setup(self):\n        self.stock_class.setup = print",
        "import sys\nsys.modules['lightning.pytorch'].Trainer = None",
        "from importlib import import_module\nimport_module(name).Trainer.fit = print",
    ],
)
def test_a_planted_write_is_found(planted: str) -> None:
    assert writes_to_lightning(ast.parse(planted))


@pytest.mark.parametrize(
    "harmless",
    [
        "def settle(connector):\n    connector._layer_sync = None",
        "from lightning.pytorch import Trainer\ntrainer = Trainer()\ntrainer.mark = 1",
        "def take(strategy, ours):\n    strategy.__class__ = ours",
        "from importlib import import_module\nimport_module('torch').load = print",
        "def ask(namespace):\n    ranks = namespace.module('cli').count()\n    ranks.seen = True",
    ],
)
def test_a_write_to_something_else_is_allowed(harmless: str) -> None:
    assert not writes_to_lightning(ast.parse(harmless))
