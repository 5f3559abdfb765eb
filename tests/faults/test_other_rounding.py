"""A chip that rounds differently than the CPU passes, if it says so; if not, it must equal the CPU to the bit."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.faults.wrong_backends import PARENT, install_wrong, try_backend

from northbridge_conformance.report.report import TestResult
from northbridge_conformance.run import FOLDER, folder_of_runs
from northbridge_conformance.suite import MODELS
from northbridge_conformance.verdict import Verdict
from northbridge_cpu_sim import ROUNDING_OPTIONS

pytestmark = pytest.mark.timeout(900)  # a run of the suite each

ROUNDED = ("C1/Layers/", "C1/MatrixUnit/", "C1/Operations/", "C2/Optimization/", "C3/FirstStep/", "C3/Distributed")
"""The tests that rounding decides; ``python -m tests.conformance --rounding 1`` runs all up to C3."""

WEIGHTS = "C2/Training/test_weights_match_a_cpu_run_on_each_rank[one device-lightning.pytorch-"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the runs: the CPU's serves both."""
    return folder_of_runs() or tmp_path_factory.mktemp("runs")


def try_weights(runs: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, *, real: bool) -> list[TestResult]:
    """Return what came of training each model on a chip that does not say how it rounds."""
    site = install_wrong(folder)
    monkeypatch.setattr(sys, "path", [*map(str, site.folders), *sys.path])
    monkeypatch.setenv("FAIRCHIP_REAL", str(int(real)))
    environ = {FOLDER: str(runs), **site.environ(), **ROUNDING_OPTIONS}
    return try_backend(PARENT, "C2", (WEIGHTS,), environ, forked=not real)


def test_a_real_one_trains_within_the_tolerance(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = try_weights(runs, tmp_path, monkeypatch, real=True)

    assert len(results) == len(MODELS)
    assert [(each.id, each.evidence) for each in results if each.verdict is not Verdict.PASS] == []


def test_a_simulated_one_is_held_to_the_bits(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = try_weights(runs, tmp_path, monkeypatch, real=False)

    assert {each.verdict for each in results} == {Verdict.FAIL}
    assert all("tensors with other bits than expected" in each.evidence for each in results)


@pytest.mark.parametrize("level", ["C1", "C2", "C3"])
def test_simulated_chip_passes_where_it_rounds(runs: Path, level: str) -> None:
    only = tuple(each for each in ROUNDED if each.startswith(level))

    results = try_backend("cpu_sim", level, only, {**os.environ, FOLDER: str(runs), **ROUNDING_OPTIONS})

    assert [(each.id, each.evidence) for each in results if each.verdict is not Verdict.PASS] == []
    assert all(any(each.id.startswith(part) for each in results) for part in only)
