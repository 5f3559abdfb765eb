"""Make each of the faults that the seeds 1 to 5 draw, and run the one test that ought to find it.

``northbridge conformance --mutate SEED`` runs every test that could find a fault; this is the least of it, and quick.
``python -m tests.conformance.drawn_faults`` writes docs/reports/drawn-faults.md, which is a record of one run.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from northbridge.conformance.mutation.hunting import LEAST
from northbridge.conformance.mutation.mutations import Mutation, as_variable, draw
from northbridge.conformance.proof.facts import find_facts
from northbridge.conformance.proof.granting import judge_test
from northbridge.conformance.proof.report import TestResult
from northbridge.conformance.proof.verdict import Verdict
from northbridge.conformance.proof.watching import watch
from northbridge.conformance.runs.shared_runs import FOLDER

BACKEND = "cpu_sim"
SEEDS = (1, 2, 3, 4, 5)
PAGE = Path(__file__).parents[2] / "docs" / "reports" / "drawn-faults.md"
_SIDE_BY_SIDE = 2


class Drawn:
    """What came of the faults of ``seeds``, each of which is made once."""

    def __init__(self, runs: Path, seeds: Iterable[int] = SEEDS) -> None:
        facts = find_facts(BACKEND, os.environ)
        self._claims = facts.capabilities.claims()
        self._environ = {**facts.environ_of_suite(os.environ), FOLDER: str(runs)}
        faults = tuple(dict.fromkeys(fault for seed in seeds for fault in draw(seed)))
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            sound = [pool.submit(self._run, level, self._of(level, faults), {}) for level in ("C1", "C3")]
            wrong = {fault: pool.submit(self._run, fault.ought[:2], (fault.ought,), _made(fault)) for fault in faults}
            self._sound = [result for each in sound for result in each.result()]
            self._wrong = {fault: each.result() for fault, each in wrong.items()}

    def tests_that_fail_without_a_fault(self) -> list[str]:
        """Return them; there must be none, and every test must have run."""
        return [result.id for result in self._sound if result.verdict is not Verdict.PASS]

    def found(self, fault: Mutation) -> list[TestResult]:
        """Return the tests that found ``fault``."""
        assert any(fault.ought in result.id for result in self._sound), f"no test is called {fault.ought}"
        return [each for each in self._wrong[fault] if each.verdict in (Verdict.FAIL, Verdict.TIMEOUT)]

    def _run(self, level: str, only: tuple[str, ...], environ: Mapping[str, str]) -> list[TestResult]:
        course = watch(BACKEND, (level,), only=only, environ={**self._environ, **environ})
        chosen = (test for test in course.planned.values() if test.chosen)
        return [judge_test(test, course.ended.get(test.id), self._claims) for test in chosen]

    @staticmethod
    def _of(level: str, faults: Iterable[Mutation]) -> tuple[str, ...]:
        return tuple(sorted({fault.ought for fault in faults if fault.ought.startswith(level)}))


def _made(fault: Mutation) -> dict[str, str]:
    return as_variable(BACKEND, fault)


def main() -> int:
    """Try them all, and write the page; return 0 where enough of each seed were found."""
    with tempfile.TemporaryDirectory(prefix="northbridge-drawn-", ignore_cleanup_errors=True) as folder:
        drawn = Drawn(Path(folder))
    rows, enough = [], not drawn.tests_that_fail_without_a_fault()
    for seed in SEEDS:
        found = {fault: drawn.found(fault) for fault in draw(seed)}
        enough &= sum(map(bool, found.values())) >= LEAST
        for fault, tests in found.items():
            by = f"`{tests[0].id}`" if tests else f"missed by `{fault.ought}`"
            rows.append(f"| {seed} | {fault.describe()} | {by} |")
    PAGE.write_text(
        "# Faults that a seed draws\n\n"
        f"Ten for each of the seeds {SEEDS[0]} to {SEEDS[-1]}, made in the simulated chip while the suite runs, and for"
        " each the test that found it. Only the test that ought to find it was run; `northbridge conformance cpu_sim"
        " --mutate SEED` runs all that could. `make conformance` makes those of the first seed; this page is a record"
        " of all, written by `python -m tests.conformance.drawn_faults`.\n\n"
        "| seed | what is wrong | the test that found it |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    )
    return 0 if enough else 1


if __name__ == "__main__":
    os.environ.pop("NORTHBRIDGE_SIMULATE", None)
    sys.exit(main())
