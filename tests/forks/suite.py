"""Fork the processes that the conformance suite starts, which saves each the import of torch and of Lightning.

Processes of the CPU, of Lightning's tool for shards, of torch's lazy device and of simulated chips are forked. Those of
a real chip start as a user's do, because its software may not do later what it does at the end of ``import torch``.
Ranks that torchrun starts are not forked. On cpu_sim neither are those of two nodes, nor the two that the suite starts
side by side for most of its collective tests: forks share the order of their sets, and a fault of ranks that differ in
it has to show somewhere. Neither is a run that leaves the choice of the accelerator to Lightning.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from tests.forks.processes import fork, place

import northbridge
from northbridge.discovery import installed
from northbridge_conformance.run import WORK
from northbridge_conformance.runs.processes import (
    ONE_THREAD,
    Process,
    environ_of_runs,
    start_afresh,
    start_by,
)
from northbridge_conformance.runs.question import ANSWER, ask
from northbridge_conformance.runs.scenario import HungError, Scenario

ROOT = Path(__file__).parents[2]

COMPILER = "torch._inductor.pattern_matcher"
"""The slowest import of what compiles a model, which ten ranks of a suite do."""

CONSOLIDATE = ".utilities.consolidate_checkpoint"
"""Lightning's tool for shards; it is given no chip."""


def forking(environ: Mapping[str, str]) -> dict[str, str]:
    """Return ``environ`` for a process that runs the suite, and forks what that starts."""
    path = [environ["PYTHONPATH"]] if environ.get("PYTHONPATH") else []
    plugins = [environ["PYTEST_PLUGINS"]] if environ.get("PYTEST_PLUGINS") else []
    return {
        **environ,
        "PYTEST_PLUGINS": ",".join([*plugins, __name__]),
        "PYTHONPATH": os.pathsep.join([*path, str(ROOT)]),
    }


def pytest_configure() -> None:
    """Fork what the suite starts from a pytest that has this module as a plugin."""
    fork_runs()


def fork_runs() -> None:
    """Fork what the suite starts from this process, and from those that it starts."""
    place()
    start_by(begin)


def begin(command: list[str], environ: Mapping[str, str], folder: Path, output: IO[bytes]) -> Process:
    """Fork a run, or a question that may be asked in a fork; start what else there is."""
    if command[:2] == WORK and may_be_forked(scenario := Scenario.from_json(command[2])):
        package = scenario.namespace.partition(".")[0] or "lightning"  # a rank of the suite's own has no namespace
        starts_ranks = scenario.launch in ("script", "two nodes") and not scenario.alone
        return fork(command, environ, folder, output, imported=(COMPILER, package), starts_ranks=starts_ranks)
    if command[0] == "-m" and command[1].endswith(CONSOLIDATE):
        return fork(command, environ, folder, output, imported=(COMPILER, command[1].partition(".")[0]))
    if command[0] == ANSWER and may_be_asked_in_a_fork(f"{Path(command[2]).stem}:{command[3]}", *command[5:]):
        inherited = environ_of_runs()
        before = {name: inherited[name] for name in environ if name in inherited}
        return fork(command, before, folder, output, late=environ, imported=(COMPILER, "lightning"))
    return start_afresh(command, environ, folder, output)


def begin_pytest(command: list[str], environ: Mapping[str, str], folder: Path, output: IO[bytes]) -> Process:
    """Fork the pytest that runs the suite, for simulated chips that are tried by the dozen."""
    return fork(command, {**environ, **ONE_THREAD}, folder, output, imported=(COMPILER, "lightning"))


def may_be_forked(scenario: Scenario) -> bool:
    """Return True if the processes of ``scenario`` are forks."""
    name, launch = scenario.accelerator, scenario.launch
    two_side_by_side = launch == "ranks" and scenario.ranks == 2 and len(scenario.steps) > 1
    if name == "cpu_sim" and (two_side_by_side or launch == "two nodes"):
        return False
    if launch not in ("script", "ranks", "two nodes"):
        return False
    return name in ("cpu", "lazy") or (name in installed.names() and northbridge.get(name).capabilities.simulated)


def may_be_asked_in_a_fork(question: str, backend: str = "", *more: str) -> bool:
    """Return True if a process that has already imported torch and Lightning may answer the question."""
    if question == "plugin:miss_hardware":  # nothing of a vendor's is loaded
        return True
    if question == "plugin:miss_software" and more[0]:  # nothing of the package's can be
        return True
    of_software = question in ("plugin:miss_software", "software:load", "software:fill_memory")
    return of_software and _declares_to_be_simulated(backend)


def _declares_to_be_simulated(backend: str) -> bool:
    try:
        declared = ask("plugin:declare", backend).facts
    except (AssertionError, HungError):
        return False
    return bool(declared["capabilities"]["simulated"] == ["bool", "True"])
