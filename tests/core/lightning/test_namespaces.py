from __future__ import annotations

import importlib
import pickle
import subprocess
import sys
from importlib.metadata import version

import pytest

from northbridge.autoload import CONNECTORS
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import FACES, Face


def test_the_autoload_watches_for_the_connector_of_each_face() -> None:
    faces = {importlib.import_module(connector): name for connector, name in CONNECTORS.items()}

    assert {face.connector: name for name, face in FACES.items()} == faces


def test_a_face_has_what_its_users_build(face: Face) -> None:
    assert callable(getattr(importlib.import_module(face.name), face.host))
    assert isinstance(getattr(face.connector, face.connector_class), type)


def test_the_version_is_that_of_the_distribution_that_brings_the_face(face: Face) -> None:
    assert face.version == version(face.distributions[0])


@pytest.mark.parametrize("field", ["accelerator", "single_device", "ddp", "checkpoint_io", "launcher"])
def test_each_class_lives_under_its_own_name_in_the_home_of_its_face(face: Face, field: str) -> None:
    cls = getattr(classes(face), field)

    assert getattr(importlib.import_module(face.home), cls.__name__) is cls
    assert pickle.loads(pickle.dumps(cls)) is cls


def test_a_home_offers_those_classes_and_nothing_else(face: Face) -> None:
    home = importlib.import_module(face.home)

    ours = [each for name, each in vars(home).items() if isinstance(each, type)]

    assert sorted(each.__name__ for each in ours) == sorted(home.__all__)


def test_no_class_is_shared_by_two_faces() -> None:
    everything = [getattr(classes(face), field) for face in FACES.values() for field in ("accelerator", "ddp")]

    assert len(set(everything)) == 8


def test_describing_the_faces_imports_neither_lightning_nor_torch() -> None:
    code = (
        "import sys; from northbridge.lightning.namespaces import FACES; assert len(FACES) == 4;"
        "print({'torch', 'lightning', 'pytorch_lightning', 'lightning_fabric'} & set(sys.modules))"
    )

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert said.stdout == "set()\n"
