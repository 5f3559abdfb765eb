from __future__ import annotations

import importlib
import subprocess
import sys
from importlib.metadata import version

from northbridge.autoload import CONNECTORS
from northbridge.lightning.namespaces import NAMESPACES, Namespace


def test_autoload_watches_each_namespaces_connector() -> None:
    namespaces = {importlib.import_module(connector): name for connector, name in CONNECTORS.items()}

    assert {namespace.connector: name for name, namespace in NAMESPACES.items()} == namespaces


def test_a_namespace_has_what_its_users_build(namespace: Namespace) -> None:
    assert callable(getattr(importlib.import_module(namespace.name), namespace.host))
    assert isinstance(getattr(namespace.connector, namespace.connector_class), type)


def test_version_is_that_of_the_distribution(namespace: Namespace) -> None:
    assert namespace.version == version(namespace.distributions[0])


def test_describing_namespaces_imports_neither() -> None:
    code = (
        "import sys; from northbridge.lightning.namespaces import NAMESPACES; assert len(NAMESPACES) == 4;"
        "print({'torch', 'lightning', 'pytorch_lightning', 'lightning_fabric'} & set(sys.modules))"
    )

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert said.stdout == "set()\n"
