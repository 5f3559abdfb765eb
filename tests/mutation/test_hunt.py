"""Counting of found faults."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import pytest
from tests.mutation import hunt as room
from tests.mutation.hunt import Catch, hunt, is_enough
from tests.mutation.mutations import VARIABLE, Mutation, draw

from northbridge_conformance.report.report import BackendFacts
from northbridge_conformance.report.suite_run import Facts
from northbridge_conformance.runner.event_log import Ended, Planned
from northbridge_conformance.runner.supervisor import Course, SuiteError
from northbridge_conformance.runs.processes import Start, start_afresh
from northbridge_conformance.verdict import Ending

SEED = 3
ABSENT = "C1/no_such_test"
ACME = BackendFacts(name="acme", distribution="northbridge-acme", version="1.0")


def planned(name: str) -> Planned:
    return Planned(id=name, chosen=True, level=name[:2], topic="", title="", claims=(), advice="")


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> None:
    """A suite of two tests: one finds every fault but those of one operation, one fails in any case."""

    def watch(
        backend: str, levels: tuple[str, ...], *, only: tuple[str, ...], environ: Mapping[str, str], begin: Start
    ) -> Course:
        assert begin is start_afresh  # acme does not say that it is simulated
        missed = draw(SEED)[0].subject
        asked = environ.get(f"{VARIABLE}ACME", "")
        found = Ending.FAILED if asked and missed not in asked else Ending.WORKED
        ended = {"finds": found, "fails": Ending.FAILED}
        endings = {f"{part}{name}": ending for part in only for name, ending in ended.items() if part != ABSENT}
        return Course(
            {name: planned(name) for name in endings},
            {name: Ended(id=name, ending=ending, seconds=0.0) for name, ending in endings.items()},
        )

    def breaking(backend: str, mutation: Mutation, environ: Mapping[str, str]) -> dict[str, str]:
        return {**environ, f"{VARIABLE}{backend.upper()}": mutation.describe()}

    monkeypatch.setattr(room, "watch", watch)
    monkeypatch.setattr(room, "breaking", breaking)
    monkeypatch.setattr(room, "find_facts", lambda *_: Facts(ACME))


def test_a_fault_is_caught_by_a_test_that_passes_without_it(suite: None) -> None:
    told: list[Catch] = []

    catches = hunt("acme", SEED, environ={}, tell=told.append)

    assert told == catches
    assert [bool(catch.caught_by) for catch in catches] == [False] + [True] * 9
    assert catches[1].caught_by == (f"{draw(SEED)[1].only}finds",)
    assert catches[1].describe().startswith(f"caught: {draw(SEED)[1].describe()}; by ")


def test_missed_mutation_names_the_expected_test(suite: None) -> None:
    first = hunt("acme", SEED, environ={})[0]

    assert first.describe() == f"missed: {draw(SEED)[0].describe()}; what ought to have found it: {draw(SEED)[0].ought}"


def test_a_hunter_says_by_which_tests(suite: None) -> None:
    catches = hunt("acme", SEED, by=attrgetter("ought"), environ={})

    assert catches[1].caught_by == (f"{draw(SEED)[1].ought}finds",)


def test_a_test_that_is_not_there_finds_nothing_and_is_told(suite: None) -> None:
    with pytest.raises(SuiteError, match="a fault was to be found by C1/no_such_test, and no test has that in its id"):
        hunt("acme", SEED, by=lambda _mutation: ABSENT, environ={})


@pytest.mark.parametrize(("caught", "enough"), [(7, False), (8, True)])
def test_eight_of_ten_are_enough(caught: int, enough: bool) -> None:
    mutations: Any = draw(SEED)
    catches = [Catch(mutation, ("C1/a",) * (number < caught)) for number, mutation in enumerate(mutations)]

    assert is_enough(catches) is enough
