"""Runs that suites side by side share."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from northbridge_conformance import run as room
from northbridge_conformance.runs.scenario import Scenario
from northbridge_conformance.runs.shared_runs import FOLDER, folder_of_runs, run_once


def test_no_folder_is_shared_unless_somebody_names_one(tmp_path: Path) -> None:
    assert folder_of_runs({}) is None
    assert folder_of_runs({FOLDER: ""}) is None
    assert folder_of_runs({FOLDER: str(tmp_path)}) == tmp_path


def test_concurrent_callers_wait_and_get_its_folder(tmp_path: Path) -> None:
    ran: list[str] = []

    def run() -> Path:
        ran.append("run")
        time.sleep(0.2)
        return tmp_path / "run"

    with ThreadPoolExecutor() as suites:
        folders = list(suites.map(lambda _: run_once(tmp_path, "training on 2", run), range(3)))

    assert (folders, ran) == ([tmp_path / "run"] * 3, ["run"])


def test_another_run_has_a_folder_of_its_own(tmp_path: Path) -> None:
    first = run_once(tmp_path, "training on 1", lambda: tmp_path / "one")
    second = run_once(tmp_path, "training on 2", lambda: tmp_path / "two")

    assert (first, second) == (tmp_path / "one", tmp_path / "two")


def test_one_that_failed_is_tried_again_by_the_next(tmp_path: Path) -> None:
    def fail() -> Path:
        raise RuntimeError("rank 1 ended")

    with pytest.raises(RuntimeError, match="rank 1 ended"):
        run_once(tmp_path, "training", fail)

    assert run_once(tmp_path, "training", lambda: tmp_path / "run") == tmp_path / "run"


@pytest.mark.parametrize(
    ("accelerator", "of_the_second", "folders"),
    [
        ("cpu", {}, 1),
        ("cpu", {"NORTHBRIDGE_CPU_SIM_STREAMS": "deferred"}, 1),
        ("cpu_sim", {}, 1),
        ("cpu_sim", {"NORTHBRIDGE_CPU_SIM_STREAMS": "deferred"}, 2),
        ("cpu_sim", {"TORCH_SHOW_CPP_STACKTRACES": "1"}, 2),
        ("cpu_sim", {"PYTEST_MUTATION_CPU_SIM": "add"}, 2),
    ],
    ids=[
        "the CPU's",
        "the CPU's, of chips that differ",
        "a chip's",
        "of a chip that differs",
        "of a torch that does",
        "of one that is broken on purpose",
    ],
)
def test_two_suites_share_a_run_where_it_is_the_same(
    accelerator: str, of_the_second: dict[str, str], folders: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.setattr(room, "_run_in", lambda folder, *_: folder)
    scenario = Scenario(accelerator, "lightning.pytorch", ("training",))

    found = set()
    for variables in ({}, of_the_second):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(room, "_results", {})
        found.add(room.run(scenario).folder)

    assert len(found) == folders
    assert all(folder.is_dir() for folder in found)
