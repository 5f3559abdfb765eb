"""Every private name of Lightning that our code relies on is in the table, and Lightning without one is left alone."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import pkgutil
import shutil
import sys
import textwrap
from abc import ABCMeta
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import lightning
import pytest
from packaging.version import Version
from tests.scripts import run_python

from northbridge.lightning.classes import classes
from northbridge.lightning.corrections import relies_on, table
from northbridge.lightning.corrections.relies_on import RELIES_ON, Reliance
from northbridge.lightning.corrections.table import CORRECTIONS, Correction
from northbridge.lightning.namespaces import NAMESPACES, Namespace, Stock
from northbridge_conformance import tests
from northbridge_conformance.runs import hosts
from northbridge_conformance.suite import Suite

ROOT = Path(__file__).parents[4]
LIGHTNING = Path(lightning.__file__).parent
TABLE: tuple[Reliance | Correction, ...] = (*RELIES_ON, *CORRECTIONS)
NAMED = {name for row in TABLE for name in (row.name, row.owner)}

OF_OTHERS = {
    "_backward_hooks": "torch's modules and parameters",
    "_check_input_dim": "torch's batch norms",
    "_ddp_params_and_buffers_to_ignore": "torch's DDP",
    "_device": "torch's GradScaler",
    "_forward_hooks": "torch's modules",
    "_forward_pre_hooks": "torch's modules",
    "_initialized": "torch's device modules",
    "_is_in_bad_fork": "torch's device modules",
    "_load": "torch.serialization",
    "_modules": "torch's modules",
    "_name": "DeepSpeed's accelerators",
}
"""Private names that Lightning has too, and that our sources take from elsewhere."""


# --- Finding the names in our sources and in our classes


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


@cache
def _nodes(cls: type) -> list[ast.AST]:
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):  # made at run time: its mixins have the source
        source = ""
    return list(ast.walk(ast.parse(source)))


# --- The table has every name


@pytest.mark.parametrize("room", ["core/northbridge/lightning", "conformance", "backends"])
def test_every_private_name_in_our_sources_is_listed(room: str) -> None:
    of_lightning = private_names(LIGHTNING) - set(OF_OTHERS)
    paths = [path for path in (ROOT / room).rglob("*.py") if "tests" not in path.relative_to(ROOT / room).parts[1:2]]
    found = {(path.name, name) for path in paths for name in names_of_others(ast.parse(path.read_text()))}

    assert {(path, name) for path, name in found if name in of_lightning and name not in NAMED} == set()


def test_every_private_name_of_our_classes_is_listed(namespace: Namespace) -> None:
    rows = {(*_place(namespace, row), row.name) for row in table._rows(RELIES_ON, namespace)}
    ours = [each for each in vars(classes(namespace)).values() if each is not None]

    found = {(*owner.split(":"), name) for cls in ours for owner, name in relied_on(cls)}

    assert found - rows == set()
    assert (f"{namespace.name}.strategies.ddp", "DDPStrategy", "_configure_launcher") in found


def test_the_suites_modules_use_no_private_name(trainer_namespace: Namespace) -> None:
    behaviours = pkgutil.walk_packages(tests.__path__, f"{tests.__name__}.")
    modules = [hosts, *(importlib.import_module(each.name) for each in behaviours)]
    found = {each for module in modules for each in vars(module).values() if isinstance(each, ABCMeta)}
    mixins = {each for each in found if each is not Stock and not issubclass(each, Suite)}

    assert {"_Classifier", "_Pictures", "_Wrapped"} <= {each.__name__ for each in mixins}
    for mixin in mixins:
        stock = "LightningDataModule" if mixin.__name__ == "_Pictures" else "LightningModule"
        if mixin.__module__.startswith("northbridge_conformance."):
            assert relied_on(hosts.combine(trainer_namespace.name, mixin, stock)) == set()


def _place(namespace: Namespace, row: Reliance) -> tuple[str, str | None]:
    return f"{namespace.fabric if row.in_fabric else namespace.name}.{row.module}", row.owner


class Theirs:
    """Stands for a class of Lightning's."""

    __module__ = "lightning.stock"

    def __init__(self) -> None:
        self._kept = 1

    def _told(self) -> int:
        return self._kept


class Ours(Theirs):
    """Stands for a class of ours."""

    __module__ = "northbridge.ours"

    def __init__(self) -> None:
        self._own = self._told()

    def _told(self) -> int:
        return self._kept


def test_an_override_and_an_attribute_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for cls in (Theirs, Ours):
        monkeypatch.setitem(sys.modules, cls.__module__, sys.modules[__name__])  # where inspect looks for their sources

    assert relied_on(Ours) == {("lightning.stock:Theirs", "_told"), ("lightning.stock:Theirs", "_kept")}


@pytest.mark.parametrize(
    "planted",
    [
        "def settle(connector):\n    connector._flag = None",
        "def settle(connector):\n    return getattr(connector, '_flag', None)",
        "class Mixin:\n    def settle(self, trainer):\n        return trainer._flag",
        "from lightning.pytorch.trainer import _flag",
        "def replace(namespace, original, self):\n    return self._flag",
    ],
)
def test_a_planted_name_is_found(planted: str) -> None:
    assert names_of_others(ast.parse(planted)) == {"_flag"}


def test_rows_of_a_name_follow_each_other_by_release() -> None:
    of_one: dict[tuple[object, ...], list[Reliance]] = {}
    for row in RELIES_ON:
        for host in row.hosts:
            of_one.setdefault((host, row.module, row.owner, row.name), []).append(row)

    for rows in of_one.values():
        starts, ends = [row.first for row in rows], [row.until for row in rows]
        assert starts[1:] == ends[:-1]
        assert ends[-1] is None
        assert sorted(starts, key=Version) == starts


# --- Without one, Lightning is left alone


@pytest.mark.parametrize("name", ["lightning.pytorch", "lightning.fabric"])
def test_each_renamed_name_is_told(name: str) -> None:
    namespace = NAMESPACES[name]
    importlib.import_module(name)
    for row in table._rows(RELIES_ON, namespace):
        renamed = replace(row, name=f"{row.name}_renamed")
        assert relies_on.differences(namespace, [renamed]) == [f"{renamed} is gone"]
    for correction in table._rows(CORRECTIONS, namespace):
        other = replace(correction, name=f"{correction.name}_renamed")
        assert table._mismatch(namespace, other) == f"{other.name} is gone"

    absent = [("nothing", None), ("nothing.inner", None), ("strategies.ddp", "Other")]
    rows = [Reliance("_name", None, ("Trainer", "Fabric"), *place) for place in absent]
    assert relies_on.differences(namespace, rows) == [
        "nothing._name is gone",
        "nothing.inner._name is gone",
        "Other._name is gone",
    ]


USE = """
from lightning.pytorch import Trainer
try:
    Trainer(accelerator="cpu_sim", logger=False, enable_checkpointing=False)
except ValueError as error:
    print(error)
"""


def test_user_of_a_changed_lightning_gets_one_warning(tmp_path: Path) -> None:
    shutil.copytree(LIGHTNING, tmp_path / "lightning", symlinks=True)
    file = tmp_path / "lightning/pytorch/strategies/ddp.py"
    file.write_text(file.read_text().replace("_register_ddp_hooks", "_add_ddp_hooks"))

    run = run_python("-c", USE, environ={**os.environ, "PYTHONPATH": str(tmp_path)})

    assert run.returncode == 0, run.stderr
    assert run.stderr.count("Northbridge leaves ") == 1
    assert "Northbridge leaves lightning.pytorch alone; its backends cannot be used there: version " in run.stderr
    assert "knows: DDPStrategy._register_ddp_hooks is gone. Fix: upgrade Northbridge" in run.stderr
    assert "You selected an invalid accelerator name: `accelerator='cpu_sim'`" in run.stdout


def test_changed_parameters_are_told(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    def _configure_launcher(self: object, kind: str) -> None: ...

    read = relies_on._read

    def changed(module: str) -> Any:
        code: Any = read(module)
        if not module.endswith(".strategies.ddp"):
            return code
        owner = next(each for each in code.co_consts if getattr(each, "co_name", "") == "DDPStrategy")
        other = owner.replace(co_consts=(*owner.co_consts, _configure_launcher.__code__))
        return code.replace(co_consts=(*(each for each in code.co_consts if each is not owner), other))

    monkeypatch.setattr(relies_on, "_read", changed)

    assert relies_on.differences(namespace, table._rows(RELIES_ON, namespace)) == [
        "DDPStrategy._configure_launcher takes ('self', 'kind'), not ('self',)"
    ]


def test_every_namespace_has_the_rows() -> None:
    for namespace in NAMESPACES.values():
        importlib.import_module(namespace.name)
        assert relies_on.differences(namespace, table._rows(RELIES_ON, namespace)) == []
        assert relies_on.differences(namespace, table._rows(RELIES_ON, namespace, command=True)) == []
