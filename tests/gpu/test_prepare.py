"""`make gpu-wheels`: which wheels a machine with a GPU gets."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest
from tests.gpu import prepare


def test_pins_are_installed_versions() -> None:
    pins = prepare.find_pins("3.12")

    assert {"lightning", "pytorch-lightning", "pytest", "pydantic-core", "tensorboardx", "numpy"} <= pins.keys()
    assert {"torch", "sympy", "setuptools", "northbridge", "mypy"} & pins.keys() == set()
    assert pins["lightning"] == version("lightning")


def test_wheels_that_are_too_large_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old-1-py3-none-any.whl").touch()
    monkeypatch.setattr(prepare, "MOST_BYTES", 2 << 20)
    monkeypatch.setattr(prepare, "build", lambda folder: (folder / "a.whl").write_bytes(bytes(2 << 20)))
    monkeypatch.setattr(prepare, "download", lambda folder, *_: (folder / "b.whl").write_bytes(bytes(1 << 20)))

    assert prepare.main(["--folder", str(tmp_path)]) == 1

    assert capsys.readouterr().err == (
        f"make gpu-wheels: 2 wheels for Python 3.12 in {tmp_path}, 3.0 MiB, but at most 2 MiB are carried\n"
    )
