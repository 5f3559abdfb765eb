"""Run the suite into a report, and verify a report against the installed suite.

A separate process collects the backend's facts, as it may crash, hang or print. If it gives no answer, the report has
only the metadata's few facts and no claims.
"""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from northbridge import capabilities
from northbridge.capabilities import Capabilities, Claim, Within
from northbridge.diagnostics.environment import describe_system, tell_value
from northbridge.discovery import installed
from northbridge.discovery.declared import get
from northbridge.discovery.simulated import simulation_of
from northbridge_conformance.levels import LEVELS
from northbridge_conformance.report.grading import grant, judge_claims, judge_tests
from northbridge_conformance.report.report import CHANGED, BackendFacts, MachineFacts, Report, SuiteFacts
from northbridge_conformance.runner.supervisor import Course, plan, watch
from northbridge_conformance.runs.question import ask_again
from northbridge_conformance.runs.scenario import HungError
from northbridge_conformance.verdict import judge

_SUITE = Path(__file__).parents[1]

_LIMIT_S = 900.0
"""The limit for loading: some software is compiled on first use."""


def run_suite(
    name: str,
    level: str,
    *,
    only: tuple[str, ...] = (),
    environ: Mapping[str, str] = os.environ,
    tell: Callable[[Course, str], None] = lambda _course, _test: None,
) -> Report:
    """Run every level up to ``level`` for backend ``name`` and return the report with its digest.

    ``only`` selects the tests whose ids contain one of these texts; such a report grants nothing. Raises the errors of
    :func:`~northbridge.discovery.installed.find`, and :class:`SuiteError`.
    """
    began, start = datetime.now(timezone.utc).isoformat(timespec="seconds"), time.monotonic()
    digest_sources()  # of the files that run, before anyone edits them
    facts = find_facts(name, environ)
    environ = facts.environ_of_suite(environ)
    levels = tuple(LEVELS)[: list(LEVELS).index(level) + 1]
    course = watch(name, levels, only=only, environ=environ, tell=tell)
    return make_report(facts, level, course, environ, began=began, seconds=time.monotonic() - start)


def make_report(
    facts: Facts, level: str, course: Course, environ: Mapping[str, str], *, began: str, seconds: float
) -> Report:
    """Return the report of a course of the suite."""
    claims = facts.capabilities.claims()
    tests = tuple(judge_tests(course, claims))
    results = judge_claims(claims, tests)
    return Report(
        suite=SuiteFacts(
            northbridge=version("northbridge"),
            sources=digest_sources(),
            asked=level,
            expected=tuple(course.planned),
            options_off=facts.list_options_off(environ),
        ),
        backend=facts.backend,
        machine=facts.describe_machine(environ),
        versions=dict(facts.versions),
        began=began,
        seconds=round(seconds, 1),
        claims=results,
        levels=grant(level, tests, results, simulated=facts.backend.simulated),
        tests=tests,
    ).sealed()


@dataclass(frozen=True)
class Facts:
    """Facts about a backend, its claims and its software."""

    backend: BackendFacts
    capabilities: Capabilities = field(default_factory=Capabilities)
    """The chip's claims, corrected by the cards of this machine."""

    versions: Mapping[str, str] = field(default_factory=dict)
    variables: tuple[str, ...] = ()
    """The vendor's variables that its contract lists."""

    described: Mapping[str, str] = field(default_factory=dict)
    """The backend's short facts about this machine."""

    def environ_of_suite(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return ``environ`` for the suite's processes; a simulated chip gets its strict options."""
        strict = strict_options(self.backend.name) if self.backend.simulated else {}
        return {**strict, **environ}

    def list_options_off(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return the strict options of a simulated chip that the user's ``environ`` turns off.

        A chip whose simulation and bridge have no strict options gets one line that says so.
        """
        if not self.backend.simulated:
            return ()
        strict = strict_options(self.backend.name)
        if not strict:
            return ("it has no strict options: give its Simulation some",)
        return tuple(
            f"{name}={environ[name]}, and not {value}: unset it"
            for name, value in strict.items()
            if environ.get(name, value) != value
        )

    def describe_machine(self, environ: Mapping[str, str]) -> MachineFacts:
        """Return the facts about this machine, with the variables of ``environ`` that affect a run.

        Values are shown only for the vendor's variables, a simulated chip's strict options, and those the core shows.
        """
        beginnings = ("NORTHBRIDGE_", "TORCH", "OMP_NUM_THREADS")
        also = (*self.variables, *(strict_options(self.backend.name) if self.backend.simulated else ()))
        told = {
            name: tell_value(name, value, also)
            for name, value in sorted(environ.items())
            if name.startswith(beginnings) or name in self.variables
        }
        return MachineFacts(
            system=describe_system(),
            processor=_processor(),
            cores=len(os.sched_getaffinity(0)),
            memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            environment=told,
            described=dict(self.described),
        )


def find_facts(name: str, environ: Mapping[str, str] = os.environ) -> Facts:
    """Return the facts about backend ``name``; raises the errors of ``discovery.installed.find``."""
    plugin = installed.find(name)
    origin: dict[str, Any] = {"name": name, "distribution": plugin.distribution, "version": plugin.version}
    try:
        found: dict[str, Any] = ask_again("software:describe", name, environ=environ, limit_s=_LIMIT_S).facts
    except (AssertionError, HungError) as error:
        return Facts(BackendFacts(**origin, problem=str(error)))
    claims: dict[str, Any] = {
        name: Claim(**value) if isinstance(value, dict) else value for name, value in found["capabilities"].items()
    }
    claims["operators"] = {
        name: Within(**said) if "bound" in said else Claim(**said) for name, said in found["operators"].items()
    }
    return Facts(
        BackendFacts(**origin, **found["backend"]),
        Capabilities(**claims),
        found["versions"],
        tuple(found["variables"]),
        _describe_machine(name, environ),
    )


def _describe_machine(name: str, environ: Mapping[str, str]) -> dict[str, str]:
    # In a process of its own: a driver that kills it, or hangs, takes no claim of the report with it.
    try:
        return ask_again("software:describe_machine", name, environ=environ).facts
    except (AssertionError, HungError) as error:
        return {"describe_machine()": str(error).partition("\n")[0].rstrip(":")}


def _processor() -> str:
    with open("/proc/cpuinfo") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def strict_options(name: str) -> Mapping[str, str]:
    """Return the strict options of the simulated chip of backend ``name``.

    They come from its bridge and its simulation. Raises the errors of :func:`northbridge.get`.
    """
    simulation = simulation_of(name)
    return {**get(name).bridge.strict_options, **(simulation.strict_options if simulation else {})}


@cache
def digest_sources() -> str:
    """Return a digest of every file of the suite and of the claims that its levels need; computed once a process."""
    total = hashlib.sha256()
    claims = Path(capabilities.__file__)
    for path in (*sorted(_SUITE.rglob("*.py")), claims):
        total.update(f"{path.relative_to((claims if path == claims else _SUITE).parent).as_posix()}\n".encode())
        total.update(path.read_bytes())
    return total.hexdigest()


def find_faults(report: Report) -> list[str]:
    """Return every reason not to trust ``report``; empty if it is complete and from this suite.

    A digest finds changes by accident or in passing. It does not stop forgery: if much depends on a report, run the
    suite again.
    """
    return [*_changed(report), *_foreign(report), *_incomplete(report), *_contradictory(report)]


def _changed(report: Report) -> Iterator[str]:
    if report.is_changed:
        yield CHANGED


def _foreign(report: Report) -> Iterator[str]:
    here = version("northbridge")
    if report.suite.northbridge != here:
        yield (
            f"it is from the suite of northbridge {report.suite.northbridge}, and {here} is installed: verify it with"
            " that one"
        )
    elif report.suite.sources != digest_sources():
        yield "it is from a suite whose files differ from those that are installed: one of the two was modified"
    if report.suite.options_off:
        yield f"its simulated chip ran without strict options: {'; '.join(report.suite.options_off)}"


def _incomplete(report: Report) -> Iterator[str]:
    levels = tuple(LEVELS)[: list(LEVELS).index(report.suite.asked) + 1] if report.suite.asked in LEVELS else ()
    with tempfile.TemporaryDirectory(prefix="northbridge-conformance-") as folder:
        planned = set(plan(Path(folder), report.backend.name, levels))
    found = {test.id for test in report.tests}
    if len(found) != len(report.tests):
        yield "it has two results of one test"
    if missing := sorted(planned - found):
        yield f"it has no result of {len(missing)} tests up to {report.suite.asked}, such as {missing[0]}"
    if more := sorted(found - planned):
        yield f"it has results of {len(more)} tests that the suite does not have, such as {more[0]}"


def _contradictory(report: Report) -> Iterator[str]:
    claims = {name: Claim(claim.answer, claim.reason) for name, claim in report.claims.items()}
    wrong = [
        test.id
        for test in report.tests
        if test.verdict is not judge(test.ending, [claims[name] for name in test.claims if name in claims])
    ]
    if wrong:
        yield f"the verdicts on {len(wrong)} tests do not follow from how they ended, such as {wrong[0]}"
    found = judge_claims(claims, report.tests)
    if wrong := sorted(name for name, claim in report.claims.items() if claim != found[name]):
        yield f"what it says of {len(wrong)} claims does not follow from its tests, such as {wrong[0]}"
    levels = grant(report.suite.asked, report.tests, report.claims, simulated=report.backend.simulated)
    if report.suite.asked in LEVELS and levels != report.levels:
        yield "its levels do not follow from its tests"
