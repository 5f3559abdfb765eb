"""A device of torch that is like no chip: it is lazy, and its tensors have no memory. One process does everything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import Install
from tests.scripts import run_python

PROGRAM = Path(__file__).with_name("lazy_programs.py")


@pytest.fixture(scope="module")
def found(install: Install, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("lazy")
    ended = run_python(str(PROGRAM), str(folder), folder=folder, environ=install("lazy").environ())
    assert ended.returncode == 0, ended.stderr
    read: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return read


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_a_training_that_is_taken_up_learns_what_the_cpu_does(found: dict[str, Any], optimizer: str) -> None:
    assert found[optimizer]["moved"]
    assert found[optimizer]["distance"] < 1e-6


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_weights_stay_tied_and_the_optimizer_holds_them(found: dict[str, Any], optimizer: str) -> None:
    assert found[optimizer]["tied"]
    assert found[optimizer]["holds"]


@pytest.mark.parametrize("way", ["together", "apart"])
def test_a_fabric_loop_learns_what_the_cpu_does(found: dict[str, Any], way: str) -> None:
    assert found[way]["moved"]
    assert found[way]["distance"] < 1e-6


def test_evaluation_and_prediction_run_under_no_grad(found: dict[str, Any]) -> None:
    mine, cpus = found["evaluation"]["lazy"], found["evaluation"]["cpu"]

    assert mine["losses"] == pytest.approx(cpus["losses"], abs=1e-6)
    for row, right in zip(mine["predicted"], cpus["predicted"], strict=True):
        assert row == pytest.approx(right, abs=1e-6)
    assert mine["modes"] == ["False False"]
    assert cpus["modes"] == ["True False"]


def test_views_are_saved_with_their_own_numbers(found: dict[str, Any]) -> None:
    saved = found["saved"]

    assert saved["rows"] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert saved["turned"] == [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]
    assert saved["chunks"] == [[[0, 1], [4, 5], [8, 9]], [[2, 3], [6, 7], [10, 11]]]
    assert saved["shared"]
    assert saved["devices"] == ["cpu", "cpu"]


def test_a_users_own_inference_mode_is_refused(found: dict[str, Any]) -> None:
    assert found["inference"] == (
        "UnsupportedError: 'lazy' does not support torch.inference_mode(): views have no kernels there."
        " Fix: torch.no_grad()"
    )
