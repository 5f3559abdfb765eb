"""How the suite runs a scenario, and when it runs one again."""

from __future__ import annotations

from pathlib import Path

import pytest

from northbridge.conformance import scenario as room
from northbridge.conformance.scenario import Outcome, Scenario

DIED = "rank 1 ended\nterminate called without an active exception"


def counted(monkeypatch: pytest.MonkeyPatch, *ends: str) -> list[str]:
    """Have each run end as told, "" being well, and return the accelerators that were run."""
    ran: list[str] = []
    left = iter(ends)

    def run(scenario: Scenario, environ: dict[str, str]) -> Outcome:
        ran.append(scenario.accelerator)
        end = next(left)
        if end:
            raise RuntimeError(end)
        return Outcome(Path(), {}, "")

    monkeypatch.setattr(room, "_run", run)
    monkeypatch.setattr(room, "_outcomes", {})
    return ran


def on(accelerator: str) -> Scenario:
    return Scenario(accelerator, "lightning.pytorch", ("training",))


def test_a_reference_that_gloo_took_down_at_its_exit_is_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = counted(monkeypatch, DIED, "")

    room.run(on("cpu"))

    assert ran == ["cpu", "cpu"]


def test_a_reference_that_fails_three_times_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = counted(monkeypatch, DIED, DIED, DIED)

    with pytest.raises(RuntimeError, match="terminate called"):
        room.run(on("cpu"))

    assert len(ran) == 3


def test_another_failure_of_a_reference_is_one_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = counted(monkeypatch, "a traceback")

    with pytest.raises(RuntimeError, match="a traceback"):
        room.run(on("cpu"))

    assert ran == ["cpu"]


def test_the_chip_under_test_gets_no_second_try(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = counted(monkeypatch, DIED)

    with pytest.raises(RuntimeError, match="terminate called"):
        room.run(on("some_chip"))

    assert ran == ["some_chip"]
