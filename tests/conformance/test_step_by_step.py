"""Runs of the steps that are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from northbridge_conformance import run as room
from northbridge_conformance.run import RunResult
from northbridge_conformance.runs.scenario import Scenario, name_of
from northbridge_conformance.step_by_step import STEP_BY_STEP, run_steps

SCENARIO = Scenario("cpu", "lightning.pytorch", ("ours:train", "ours:run_stages", "ours:hook"))
ENVIRON = {"VARIABLE": "1"}


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The steps of each run, whose findings are its environment."""
    found: list[tuple[str, ...]] = []

    def run(scenario: Scenario, environ: dict[str, str]) -> RunResult:
        found.append(scenario.steps)
        return RunResult(
            Path("of", *scenario.steps), {f"{name_of(step)} mlp": [environ] for step in scenario.steps}, ""
        )

    monkeypatch.setattr(room, "_run", run)
    monkeypatch.setattr(room, "_results", {})
    return found


def test_only_what_is_read_runs(ran: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STEP_BY_STEP, "1")

    result = run_steps(SCENARIO, ENVIRON)

    assert "step by step" in repr(result)
    assert ran == []
    assert result.only("run_stages mlp") == ENVIRON
    assert run_steps(SCENARIO, ENVIRON).each("train mlp", "VARIABLE") == ["1"]
    assert result.ranks("train mlp") == [ENVIRON]
    assert ran == [("ours:run_stages",), ("ours:train",)]


def test_what_all_steps_leave_is_of_a_whole_run(ran: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STEP_BY_STEP, "1")

    result = run_steps(SCENARIO, ENVIRON)

    assert result.folder == Path("of/ours:train/ours:run_stages/ours:hook")
    assert set(result.findings) == {"train mlp", "run_stages mlp", "hook mlp"}
    assert ran == [SCENARIO.steps]
    with pytest.raises(AttributeError, match="_nothing"):
        _ = result._nothing  # type: ignore[attr-defined]


def test_else_it_is_the_run_of_all(ran: list[tuple[str, ...]]) -> None:
    assert run_steps(SCENARIO, ENVIRON) is room.run(SCENARIO, ENVIRON)
    assert ran == [SCENARIO.steps]
