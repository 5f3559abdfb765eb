"""A pytest plugin of the suite that lets each step of a chip's run be a run of its own.

A run begins when a test reads the step's findings: quicker for one test, and slower for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from northbridge_conformance.run import RunResult, run
from northbridge_conformance.runs.scenario import Scenario, name_of


def pytest_collection_finish() -> None:
    """Put runs of single steps in the place of runs; the suite has been imported by now."""
    from northbridge_conformance import suite
    from northbridge_conformance.tests.collective import ranks

    modules: tuple[Any, ...] = (suite, ranks)
    for module in modules:
        module.run = run_steps


def run_steps(scenario: Scenario, environ: Mapping[str, str] | None = None) -> RunResult:
    """Return a result that runs what is read of it; what Lightning does on the CPU is one run, which suites share."""
    if scenario.accelerator != "cpu" and len(scenario.steps) > 1:
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
