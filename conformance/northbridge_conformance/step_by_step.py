"""Run only those steps of a run that tests read: quicker for one test, and slower for all of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from northbridge_conformance.run import RunResult, run
from northbridge_conformance.runs.scenario import Scenario, name_of

STEP_BY_STEP = "PYTEST_NORTHBRIDGE_STEP_BY_STEP"
"""The variable that, if set, lets each step be a run of its own, which happens when a test reads the step's findings.

Its prefix is that of the suite's other variables, which are not Northbridge's settings.
"""


def run_steps(scenario: Scenario, environ: Mapping[str, str] | None = None) -> RunResult:
    """Return what :func:`~northbridge_conformance.run.run` does, or a result that runs what is read of it."""
    if os.environ.get(STEP_BY_STEP) and len(scenario.steps) > 1:
        return _StepByStep(scenario, environ)
    return run(scenario, environ)


class _StepByStep(RunResult):
    """The result of a run of which each step is a run."""

    def __init__(self, scenario: Scenario, environ: Mapping[str, str] | None) -> None:
        self.__dict__.update(_scenario=scenario, _environ=environ)  # the class is frozen

    def __repr__(self) -> str:
        return f"{self._scenario}, step by step"  # a failed test's traceback has it, which is to run nothing

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(run(self._scenario, self._environ), name)  # what all of its steps leave

    def ranks(self, topic: str) -> list[dict[str, Any]]:
        named = [step for step in self._scenario.steps if name_of(step) in topic.split()]
        steps = tuple(named[:1]) or self._scenario.steps
        return run(replace(self._scenario, steps=steps), self._environ).ranks(topic)
