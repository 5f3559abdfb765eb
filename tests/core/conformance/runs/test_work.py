"""What a process of a run goes on with, and what it leaves behind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from northbridge.conformance.runs.findings import read, write
from northbridge.conformance.runs.scenario import Outcome, Scenario
from northbridge.conformance.runs.work import main
from northbridge.errors import UnsupportedError


@pytest.fixture
def duty(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have a duty do something, and report it under another topic than its name where that is given."""

    def add(name: str, perform: Callable[[], object], topic: str = "") -> None:
        def perform_and_tell(_scenario: Scenario, folder: Path) -> None:
            perform()
            write(folder, name, 0, {})

        module = ModuleType(name)
        module.perform = perform_and_tell  # type: ignore[attr-defined]
        if topic:
            module.TOPIC = topic  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, f"northbridge.conformance.runs.duties.{name}", module)

    return add


def refuse() -> None:
    raise UnsupportedError("acme does not train", capability="fit")


def fail() -> None:
    raise ValueError("out of luck")


@pytest.mark.parametrize("devices", [1, 2])
def test_after_a_refusal_the_ranks_go_on(duty: Callable[..., None], tmp_path: Path, devices: int) -> None:
    duty("posing", refuse)
    duty("resting", lambda: None)

    main(Scenario("acme", "", ("posing", "resting"), devices), tmp_path)

    outcome = Outcome(tmp_path, read(tmp_path), "")
    assert outcome.ranks("resting") == [{}]
    with pytest.raises(UnsupportedError, match="acme does not train"):
        outcome.ranks("posing")


def test_a_refusal_is_found_by_what_the_duty_reports_on(duty: Callable[..., None], tmp_path: Path) -> None:
    duty("posing", refuse, topic="standing")

    main(Scenario("acme", "", ("posing",)), tmp_path)

    with pytest.raises(UnsupportedError, match="acme does not train"):
        Outcome(tmp_path, read(tmp_path), "").ranks("standing still")


def test_a_process_that_is_alone_goes_on_after_a_failure_too(duty: Callable[..., None], tmp_path: Path) -> None:
    duty("posing", fail)
    duty("resting", lambda: None)

    main(Scenario("acme", "", ("posing", "resting")), tmp_path)

    outcome = Outcome(tmp_path, read(tmp_path), "")
    assert outcome.ranks("resting") == [{}]
    with pytest.raises(AssertionError, match="out of luck"):
        outcome.ranks("posing")


def test_several_ranks_end_with_a_failure_for_which_the_others_would_wait(
    duty: Callable[..., None], tmp_path: Path
) -> None:
    duty("posing", fail)
    duty("resting", lambda: None)

    with pytest.raises(ValueError, match="out of luck"):
        main(Scenario("acme", "", ("posing", "resting"), 2), tmp_path)

    assert read(tmp_path) == {}
