"""Run on each backend that is wrong on purpose the test that ought to catch it, and on their right parent all of those.

``python -m tests.faults.wrong_backends`` writes tests/faults/wrong-backends.md, which is a record of one run. With
``--rounding``, the chip rounds as real ones do, by all options of rounding, and no page is written.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path

from tests.core.broken_plugins import write_distribution
from tests.core.conftest import Site
from tests.engines import with_engines
from tests.forks.suite import begin_pytest, forking

from northbridge.capabilities import Claim
from northbridge_conformance.report.grading import judge_tests
from northbridge_conformance.report.report import TestResult
from northbridge_conformance.run import FOLDER
from northbridge_conformance.runner.supervisor import watch
from northbridge_conformance.runs.processes import start_afresh
from northbridge_conformance.runs.question import ask
from northbridge_conformance.verdict import Verdict
from northbridge_cpu_sim import ROUNDING_OPTIONS, STRICT_OPTIONS

_DECLARED = """
import json, northbridge
declared = {{name: northbridge.get(name).capabilities.claims() for name in {}}}
print(json.dumps({{name: {{each: [claims[each].answer, claims[each].reason] for each in claims}}
    for name, claims in declared.items()}}))
"""

VENDOR = Path(__file__).parents[1] / "vendors" / "wrong"
PAGE = Path(__file__).with_name("wrong-backends.md")
PARENT = "right"
STEP_BY_STEP = "tests.faults.step_by_step"
_SIDE_BY_SIDE = 2

UNSEEN = "\n## What the suite does not see\n"
"""The heading of the end of the page, which people write: faults that no test shows, each with the reason."""


@dataclass(frozen=True)
class Fault:
    """One backend that is wrong."""

    backend: str
    fault: str
    test: str
    """A part of the id of the test that ought to catch it."""

    rounding: str | None = None
    """The same for a chip that rounds, if it is another test; empty if such a chip may do what is wrong here."""

    def on_a_chip_that_rounds(self) -> Fault | None:
        """Return this fault with the test that ought to catch it there, if one ought to."""
        return None if self.rounding == "" else replace(self, test=self.rounding or self.test)

    @property
    def level(self) -> str:
        """The level of that test."""
        return self.test.partition("/")[0]


@cache
def read_faults() -> tuple[Fault, ...]:
    """Return what the wrong backends say of themselves."""
    sys.path.insert(0, str(VENDOR))
    try:
        import_module("northbridge_wrong")
        recorded = import_module("northbridge_right").FAULTS
    finally:
        sys.path.remove(str(VENDOR))
    return tuple(Fault(backend, *found) for backend, found in recorded.items())


def install_wrong(root: Path) -> Site:
    """Install the wrong backends, each a module of ``northbridge_wrong``, and their parent below ``root``."""
    plugins = {PARENT: f"northbridge_{PARENT}"}
    plugins |= {each.backend: each.backend.replace("wrong_", "northbridge_wrong.", 1) for each in read_faults()}
    write_distribution(root / "site", "northbridge-wrong", "1.0", {"northbridge.backends": plugins})
    return Site((VENDOR, root / "site"), root)


class Trial:
    """All runs, two at a time; each is known when it is asked for.

    The steps of a run are in processes of their own unless they are ``together``, as a vendor's are.
    """

    def __init__(
        self, site: Site, runs: Path, faults: Iterable[Fault], *, rounding: bool = False, together: bool = False
    ) -> None:
        self._site = [str(folder) for folder in site.folders]
        sys.path[:0] = self._site  # the children of this process import from where it does
        # What Lightning does on the CPU, with which they are compared, is one.
        self._environ = {
            FOLDER: str(runs),
            "PYTEST_PLUGINS": "" if together else STEP_BY_STEP,
            **with_engines(site.environ()),
            **STRICT_OPTIONS,
            **(ROUNDING_OPTIONS if rounding else {}),
        }
        self._pool = ThreadPoolExecutor(_SIDE_BY_SIDE)
        faults = tuple(faults)
        self._claims = self._ask_claims(site, [PARENT, *(fault.backend for fault in faults)])
        tests: dict[str, list[str]] = {}
        for fault in faults:
            tests.setdefault(fault.level, []).append(fault.test)
        self._parents = {level: self.start(PARENT, level, set(parts)) for level, parts in tests.items()}
        self._results = {fault: self.start(fault.backend, fault.level, {fault.test}) for fault in faults}

    def of_the_parent(self, fault: Fault) -> list[TestResult]:
        """Return what came of the test of ``fault`` on the right backend."""
        return [result for result in self._parents[fault.level].result() if fault.test in result.id]

    def of(self, fault: Fault) -> list[TestResult]:
        """Return what came of the test of ``fault`` on the wrong one."""
        return self._results[fault].result()

    def end(self) -> None:
        """Begin nothing more."""
        self._pool.shutdown(cancel_futures=True)
        sys.path[:] = [folder for folder in sys.path if folder not in self._site]

    def start(self, backend: str, level: str, tests: Iterable[str]) -> Future[list[TestResult]]:
        """Run tests of a backend together."""
        claims = self._claims.get(backend)
        return self._pool.submit(try_backend, backend, level, tuple(sorted(tests)), self._environ, claims=claims)

    def _ask_claims(self, site: Site, backends: list[str]) -> dict[str, dict[str, Claim]]:
        """Return what each backend claims, from one process: one for each would cost half a minute in all."""
        told = site.answer(_DECLARED.format(backends), **self._environ)
        return {name: {each: Claim(*said) for each, said in claims.items()} for name, claims in told.items()}


def try_backend(
    backend: str,
    level: str,
    only: tuple[str, ...],
    environ: Mapping[str, str],
    *,
    forked: bool = True,
    claims: Mapping[str, Claim] | None = None,
) -> list[TestResult]:
    """Return what came of the tests whose ids hold one of ``only``; a chip that says it is real is not ``forked``.

    The backend is asked for its ``claims`` if they are not given.
    """
    if claims is None:
        declared = ask("plugin:declare", backend, environ=environ).facts["capabilities"]
        claims = {name: Claim(*said) for name, (kind, *said) in declared.items() if kind == "Claim"}
    environ = forking({"PYTEST_PLUGINS": STEP_BY_STEP, **environ})
    course = watch(backend, (level,), only=only, environ=environ, begin=begin_pytest if forked else start_afresh)
    return [result for result in judge_tests(course, claims) if result.id in course.chosen]


def catching(results: Iterable[TestResult]) -> list[TestResult]:
    """Return those of ``results`` by which a backend is caught."""
    return [result for result in results if result.verdict in (Verdict.FAIL, Verdict.UNDERCLAIM, Verdict.TIMEOUT)]


def main(*, rounding: bool) -> int:
    """Try them all, and write the page unless the chip is ``rounding``; return 0 where each was caught."""
    read = read_faults()
    faults = tuple(filter(None, (each.on_a_chip_that_rounds() for each in read))) if rounding else read
    with tempfile.TemporaryDirectory(prefix="northbridge-wrong-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        (root / "runs").mkdir()
        trial = Trial(install_wrong(root), root / "runs", faults, rounding=rounding)
        rows, missed = [], []
        for fault in faults:
            caught = catching(trial.of(fault))
            passed = all(result.verdict is Verdict.PASS for result in trial.of_the_parent(fault))
            if not caught or not passed:
                missed.append(fault.backend)
            by = f"`{caught[0].id}`" if caught else f"nothing; it ought to have been `{fault.test}`"
            verdict = caught[0].verdict.value if caught else "-"
            rows.append(f"| {fault.fault} | {by} | {verdict} | {'passes' if passed else 'does not pass'} |")
        trial.end()
    if rounding:
        print(f"{len(faults) - len(missed)} of {len(faults)} are caught on a chip that rounds")
    else:
        _write_page(faults, rows)
    for backend in missed:
        print(f"not caught, or its parent does not pass: {backend}", file=sys.stderr)
    return 1 if missed else 0


def _write_page(faults: tuple[Fault, ...], rows: Iterable[str]) -> None:
    _, heading, unseen = PAGE.read_text().partition(UNSEEN)
    PAGE.write_text(
        "# Backends that are wrong on purpose\n\n"
        f"Each of these {len(faults)} backends is right except for one override (`tests/vendors/wrong` in the"
        " repository), and runs on the simulated chip. `make test-all` runs all of them, `make test` runs twelve."
        " `python -m tests.faults.wrong_backends` writes this page.\n\n"
        "| fault | test that caught it | verdict | same test, without the fault |\n|---|---|---|---|\n"
        + "\n".join(rows)
        + "\n"
        + heading
        + unseen
    )


if __name__ == "__main__":
    os.environ.pop("NORTHBRIDGE_SIMULATE", None)
    sys.exit(main(rounding="--rounding" in sys.argv[1:]))
