"""Endings of runs with killed ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from northbridge_conformance.runs.run_errors import HungError
from northbridge_conformance.runs.scenario import Scenario
from northbridge_conformance.tests.endurance import endings
from northbridge_conformance.tests.endurance.endings import run_to_the_end

FIRST = Scenario("cpu", "lightning.pytorch", ("training",))
SECOND = Scenario("cpu", "lightning.pytorch", ("checkpoints.save",))


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of scenarios started at once; the second of two is killed, and one with ``HANG`` never ends."""
    numbers: list[int] = []

    def play(
        plays: Sequence[tuple[Scenario, Path]], environ: Mapping[str, str], at_end: Callable[[], None]
    ) -> list[list[int]]:
        numbers.append(len(plays))
        if "HANG" in environ:
            raise HungError("it did not end")
        for number, (_, folder) in enumerate(plays):
            (folder / "said-0.txt").write_text(f"job {number}")
        at_end()
        return [[0], [-9]][: len(plays)]

    monkeypatch.setattr(endings, "play", play)
    monkeypatch.setattr(endings, "_ends", {})
    return numbers


def test_side_by_side_runs_start_at_once(played: list[int]) -> None:
    first, second = run_to_the_end(FIRST, SECOND, environ={})

    assert played == [2]
    assert (first.codes, second.codes) == ((0,), (-9,))
    assert (first.said, second.said) == ("job 0", "job 1")
    assert first.folder != second.folder


def test_tests_that_ask_for_one_end_share_its_run(played: list[int]) -> None:
    assert run_to_the_end(FIRST, environ={}) is run_to_the_end(FIRST, environ={})
    assert played == [1]


def test_a_run_that_hangs_fails_every_test_that_asks_for_it(played: list[int]) -> None:
    for _ in range(2):
        with pytest.raises(HungError, match="it did not end"):
            run_to_the_end(FIRST, environ={"HANG": "1"})

    assert played == [1]
