"""Run the suite on a backend, from collecting its facts to the report."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from importlib.metadata import version

from northbridge_conformance.levels import LEVELS
from northbridge_conformance.report.facts import Facts, digest_sources, find_facts
from northbridge_conformance.report.grading import grant, judge_claims, judge_tests
from northbridge_conformance.report.report import Report, SuiteFacts
from northbridge_conformance.runner.supervisor import Course, watch


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
            mutation=course.broken,
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
