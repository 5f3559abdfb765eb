from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from importlib.metadata import version

import pytest

from northbridge.autoload import CONNECTORS
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import NAMESPACES, Namespace


def test_the_autoload_watches_for_the_connector_of_each_namespace() -> None:
    namespaces = {importlib.import_module(connector): name for connector, name in CONNECTORS.items()}

    assert {namespace.connector: name for name, namespace in NAMESPACES.items()} == namespaces


def test_a_namespace_has_what_its_users_build(namespace: Namespace) -> None:
    assert callable(getattr(importlib.import_module(namespace.name), namespace.host))
    assert isinstance(getattr(namespace.connector, namespace.connector_class), type)


def test_the_version_is_that_of_the_distribution_that_brings_the_namespace(namespace: Namespace) -> None:
    assert namespace.version == version(namespace.distributions[0])


@pytest.mark.parametrize("field", ["accelerator", "single_device", "ddp", "checkpoint_io", "launcher"])
def test_each_class_lives_under_its_own_name_in_the_home_of_its_namespace(namespace: Namespace, field: str) -> None:
    cls = getattr(classes(namespace), field)

    assert getattr(importlib.import_module(namespace.home), cls.__name__) is cls
    assert pickle.loads(pickle.dumps(cls)) is cls


def test_a_home_offers_those_classes_and_nothing_else(namespace: Namespace) -> None:
    home = importlib.import_module(namespace.home)

    ours = [each for name, each in vars(home).items() if isinstance(each, type)]

    assert sorted(each.__name__ for each in ours) == sorted(home.__all__)


def test_no_class_is_shared_by_two_namespaces() -> None:
    everything = [
        getattr(classes(namespace), field) for namespace in NAMESPACES.values() for field in ("accelerator", "ddp")
    ]

    assert len(set(everything)) == 8


def test_describing_the_namespaces_imports_neither_lightning_nor_torch() -> None:
    code = (
        "import sys; from northbridge.lightning.namespaces import NAMESPACES; assert len(NAMESPACES) == 4;"
        "print({'torch', 'lightning', 'pytorch_lightning', 'lightning_fabric'} & set(sys.modules))"
    )

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert said.stdout == "set()\n"
