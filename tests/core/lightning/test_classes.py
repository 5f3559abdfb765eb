"""Lightning's namespaces, and the classes that are combined for each of them."""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from tests.scripts import run_python

from northbridge import lightning
from northbridge.autoload import CONNECTORS
from northbridge.lightning.classes import COMBINATIONS, Combination, classes
from northbridge.lightning.namespaces import NAMESPACES, Namespace

ROOM = Path(lightning.__file__).parent
MIXINS = sorted({mixin for row in COMBINATIONS for mixin in row.mixins}, key=lambda mixin: mixin.__name__)


@pytest.mark.parametrize("row", COMBINATIONS, ids=lambda row: f"{row.name}-{row.hosts[0]}")
def test_a_stock_object_takes_our_class(row: Combination) -> None:
    for namespace in NAMESPACES.values():
        if namespace.host not in row.hosts or row.stock == "object":  # nothing of Lightning's is below
            continue
        ours = getattr(classes(namespace), row.field)
        concrete: Any = type("Concrete", (ours.stock_class,), {})
        concrete.__abstractmethods__ = frozenset()
        thing = concrete.__new__(concrete)
        if not inspect.isabstract(ours.stock_class):
            thing = ours.stock_class.__new__(ours.stock_class)

        thing.__class__ = ours

        assert type(thing) is ours


@pytest.mark.parametrize("field", [row.field for row in COMBINATIONS if row.hosts != ("Fabric",)])
def test_a_class_lives_in_its_namespaces_home(namespace: Namespace, field: str) -> None:
    cls = getattr(classes(namespace), field)
    if field in ("layer_sync", "captured_step", "recompilation_monitor", "snapshots") and not namespace.is_trainer:
        assert cls is None
        return

    assert getattr(importlib.import_module(namespace.home), cls.__name__) is cls
    assert pickle.loads(pickle.dumps(cls)) is cls


def test_a_home_offers_those_classes_and_nothing_else(namespace: Namespace) -> None:
    home = importlib.import_module(namespace.home)

    ours = [each for name, each in vars(home).items() if isinstance(each, type)]

    expected = [row.name for row in COMBINATIONS if namespace.host in row.hosts]
    assert sorted(each.__name__ for each in ours) == sorted(expected)


@pytest.mark.parametrize("mixin", MIXINS, ids=lambda mixin: mixin.__name__)
def test_every_public_method_has_a_docstring(mixin: type) -> None:
    ours = [cls for cls in mixin.__mro__ if cls.__module__.startswith("northbridge.")]

    methods = {f"{cls.__name__}.{name}": each for cls in ours for name, each in vars(cls).items() if name[0] != "_"}

    functions = {name: each for name, each in methods.items() if not isinstance(each, (bool, str, type(None)))}
    assert [name for name, each in functions.items() if not inspect.getdoc(each)] == []
    assert functions


def test_no_class_statement_is_in_a_function() -> None:
    inner = [
        f"{path.name}: {node.name}"
        for path in ROOM.rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ClassDef)
    ]

    assert inner == []


def test_autoload_watches_each_namespaces_connector() -> None:
    namespaces = {importlib.import_module(connector): name for connector, name in CONNECTORS.items()}

    assert {namespace.connector: name for name, namespace in NAMESPACES.items()} == namespaces


def test_version_is_that_of_the_distribution(namespace: Namespace) -> None:
    assert namespace.version == version(namespace.distributions[0])


def test_describing_namespaces_imports_neither() -> None:
    code = (
        "import sys; from northbridge.lightning.namespaces import NAMESPACES; assert len(NAMESPACES) == 4;"
        "print({'torch', 'lightning', 'pytorch_lightning', 'lightning_fabric'} & set(sys.modules))"
    )

    assert run_python("-c", code).stdout == "set()\n"
