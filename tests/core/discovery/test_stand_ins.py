"""Modules that stand in for others: where they are found, and what becomes of one that cannot be imported."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import northbridge
from northbridge.discovery.stand_ins import StandIns

Stand = Callable[[str], Path]


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    """Let the module `torch_absent` be stood in for by a package of one file, for this test."""
    finder = StandIns("absent", {"torch_absent": tmp_path})
    sys.meta_path.append(finder)

    def stand(code: str) -> Path:
        file = tmp_path / "__init__.py"
        file.write_text(code)
        return file

    yield stand
    sys.meta_path.remove(finder)
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch_absent"]:
        del sys.modules[name]


def test_it_is_found_before_it_is_imported(stand: Stand) -> None:
    file = stand("raise SystemExit")

    spec: Any = find_spec("torch_absent")
    assert spec.origin == str(file)
    assert "torch_absent" not in sys.modules


def test_it_is_a_package_whose_modules_python_finds(stand: Stand, tmp_path: Path) -> None:
    stand("NAME = 1")
    (tmp_path / "inner.py").write_text("NAME = 2")

    assert importlib.import_module("torch_absent.inner").NAME == 2


def test_what_is_there_for_real_is_found_first(tmp_path: Path) -> None:
    finder = StandIns("absent", {"fractions": tmp_path / "fractions.py"})
    sys.meta_path.append(finder)
    try:
        spec: Any = find_spec("fractions")
        assert not spec.origin.startswith(str(tmp_path))
    finally:
        sys.meta_path.remove(finder)


def test_raising_stand_in_is_named_and_leaves_nothing(stand: Stand) -> None:
    file = stand("raise OSError('libabsent.so is not there')")

    with pytest.raises(northbridge.SimulationError) as caught:
        importlib.import_module("torch_absent")

    assert str(caught.value) == (
        f"NORTHBRIDGE_SIMULATE=absent: importing {file} raised OSError: libabsent.so is not there. Fix:"
        " upgrade its distribution"
    )
    assert "torch_absent" not in sys.modules


def test_an_error_of_ours_is_told_as_it_is(stand: Stand) -> None:
    stand("import northbridge; raise northbridge.SettingsError('GROUPS=0 is not allowed', variable='GROUPS')")

    with pytest.raises(northbridge.SettingsError, match=r"^GROUPS=0 is not allowed$"):
        importlib.import_module("torch_absent")
