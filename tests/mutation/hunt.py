"""Hunt for faults that were made on purpose: which of ten the suite finds, and which test finds each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from tests.forks.suite import begin_pytest, forking
from tests.mutation.mutations import Mutation, breaking, draw

from northbridge_conformance.report.grading import judge_tests
from northbridge_conformance.report.suite_run import find_facts
from northbridge_conformance.runner.supervisor import SuiteError, watch
from northbridge_conformance.runs.processes import start_afresh
from northbridge_conformance.step_by_step import STEP_BY_STEP
from northbridge_conformance.verdict import Verdict

LEAST = 8
"""The number of the ten faults that must be found."""

_SIDE_BY_SIDE = 2
_HARMLESS = (Verdict.PASS, Verdict.UNKNOWN, Verdict.NOT_RUN)


@dataclass(frozen=True)
class Catch:
    """The outcome of one fault."""

    mutation: Mutation
    caught_by: tuple[str, ...]
    """The tests that pass without the fault and do not with it."""

    def describe(self) -> str:
        """Return it in a line."""
        first = next(iter(self.caught_by), None)
        if first is None:
            return f"missed: {self.mutation.describe()}; what ought to have found it: {self.mutation.ought}"
        more = f" and {len(self.caught_by) - 1} more" if len(self.caught_by) > 1 else ""
        return f"caught: {self.mutation.describe()}; by {first}{more}"


def hunt(
    backend: str,
    seed: int,
    *,
    by: Callable[[Mutation], str] = attrgetter("only"),
    environ: Mapping[str, str] = os.environ,
    tell: Callable[[Catch], None] = lambda _catch: None,
) -> list[Catch]:
    """Return what came of each of the ten faults of ``seed``; ``tell`` is called with each as it is known.

    To find one, the tests are run whose ids hold what ``by`` says of it. Raises what
    :func:`~northbridge.discovery.installed.find` raises, and :class:`SuiteError`.
    """
    facts = find_facts(backend, environ)
    environ = facts.environ_of_suite(environ)
    claims = facts.capabilities.claims()
    begin = begin_pytest if facts.capabilities.simulated else start_afresh

    def find_failing(only: tuple[str, ...], environ: Mapping[str, str]) -> set[str]:
        environ = {**environ, STEP_BY_STEP: "1"}
        course = watch(backend, (_level(only[0]),), only=only, environ=environ, begin=begin)
        for part in only:
            if not any(part in test for test in course.planned):
                raise SuiteError(f"a fault was to be found by {part}, and no test has that in its id")
        return {result.id for result in judge_tests(course, claims) if result.verdict not in _HARMLESS}

    mutations = draw(seed)
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        levels = [tuple(only) for _, only in groupby(sorted(set(map(by, mutations))), _level)]
        sound = set().union(*pool.map(lambda only: find_failing(only, forking(environ)), levels))

        def try_one(mutation: Mutation) -> Catch:
            failing = find_failing((by(mutation),), breaking(backend, mutation, environ))
            return Catch(mutation, tuple(sorted(failing - sound)))

        catches = []
        for catch in pool.map(try_one, mutations):
            tell(catch)
            catches.append(catch)
    return catches


def _level(part: str) -> str:
    return part.partition("/")[0]


def is_enough(catches: Iterable[Catch]) -> bool:
    """Return True if enough faults were found."""
    return sum(bool(catch.caught_by) for catch in catches) >= LEAST
