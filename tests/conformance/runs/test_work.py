"""Processes of a run: their continuation after an error, and their files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType, SimpleNamespace

import pytest

from northbridge.errors import UnsupportedError
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs import work
from northbridge_conformance.runs.scenario import Scenario, read, reference, write
from northbridge_conformance.runs.work import main
from northbridge_conformance.suite import BASICS, USES
from northbridge_conformance.tests.collective.ranks import STEPS


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have a step do something, and report it."""

    def add(name: str, perform: Callable[[], object]) -> None:
        def perform_and_tell(_scenario: Scenario, folder: Path) -> None:
            perform()
            write(folder, name, 0, {})

        module = sys.modules.get("posing") or ModuleType("posing")
        setattr(module, name, perform_and_tell)
        monkeypatch.setitem(sys.modules, "posing", module)

    return add


def refuse() -> None:
    raise UnsupportedError("acme does not train", capability="fit")


def fail() -> None:
    raise ValueError("out of luck")


@pytest.mark.parametrize("devices", [1, 2])
def test_after_a_refusal_the_ranks_go_on(step: Callable[..., None], tmp_path: Path, devices: int) -> None:
    step("pose", refuse)
    step("sleep", lambda: None)

    main(Scenario("acme", "", ("posing:pose", "posing:sleep"), devices), tmp_path)

    outcome = RunResult(tmp_path, read(tmp_path), "")
    assert outcome.ranks("sleep") == [{}]
    with pytest.raises(UnsupportedError, match="acme does not train"):
        outcome.ranks("pose")


@pytest.mark.parametrize("devices", [1, 2])
def test_processes_end_with_a_failed_step(
    step: Callable[..., None], tmp_path: Path, capfd: pytest.CaptureFixture[str], devices: int
) -> None:
    step("sleep", lambda: None)
    step("pose", fail)

    with pytest.raises(ValueError, match="out of luck"):
        main(Scenario("acme", "", ("posing:sleep", "posing:pose", "posing:sleep"), devices), tmp_path)

    assert list(read(tmp_path)) == ["sleep"]
    begun = [f"process {os.getpid()} begins the step {name}" for name in ("posing:sleep", "posing:pose")]
    assert capfd.readouterr().out.splitlines() == begun


def test_late_error_ends_its_own_step(
    step: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step("pose", lambda: None)
    step("sleep", lambda: None)
    monkeypatch.setattr(work, "loaded", lambda: SimpleNamespace(device=SimpleNamespace(synchronize=fail)))

    with pytest.raises(ValueError, match="out of luck"):
        main(Scenario("acme", "", ("posing:pose", "posing:sleep"), 2, launch="ranks"), tmp_path)

    assert list(read(tmp_path)) == ["pose"]


@pytest.mark.parametrize(
    "step", sorted({*STEPS, *(step for runs in (BASICS, USES) for steps in runs.values() for step in steps)})
)
def test_step_names_a_function(step: str) -> None:
    assert reference(resolve_name(step)) == step
