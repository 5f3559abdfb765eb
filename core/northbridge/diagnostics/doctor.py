"""What ``northbridge doctor`` finds out: more than a list, about one backend or all of them, and what to do.

Whatever can crash or hang is done in child processes with time limits, as for ``northbridge list``.
"""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from northbridge.diagnostics import backends, examination, namespaces, selection, torch_import
from northbridge.diagnostics.advice import Advice, advise
from northbridge.diagnostics.backend_report import BackendReport, backend_report
from northbridge.diagnostics.backends import claimed
from northbridge.diagnostics.environment import Variable, examine_environment
from northbridge.diagnostics.listing import LOAD_SECONDS, torch_version
from northbridge.diagnostics.namespaces import NamespaceRow
from northbridge.diagnostics.selection import Selection, choose_namespace
from northbridge.diagnostics.system import describe_system
from northbridge.diagnostics.training import Training, train
from northbridge.discovery.installed import find, names
from northbridge.discovery.simulated import refuse_unknown_simulation
from northbridge.process_record import Entry
from northbridge.processes.child import Queue
from northbridge.settings import CoreSettings

if TYPE_CHECKING:
    from northbridge.diagnostics.backends import Claimed
    from northbridge.processes.child import Tell

_EXIT_CODES = {"wrong": 1, "software missing": 3, "hardware missing": 4}


@dataclass(frozen=True)
class Diagnosis:
    """Everything that was found; the keys of the JSON are the names of these fields and of the parts'."""

    northbridge: str
    python: str
    torch: str | None
    system: str
    torch_problem: str
    """Why ``import torch`` fails; empty where it does not."""
    asked: str | None
    """The backend that was asked about; ``None`` for all of them."""
    environment: tuple[Variable, ...]
    namespaces: tuple[NamespaceRow, ...]
    selection: Selection
    backends: tuple[BackendReport, ...]
    trainings: dict[str, tuple[Training, ...]]
    """By the name of the backend; empty where no training was asked for."""
    record: tuple[Entry, ...]
    advice: tuple[Advice, ...]

    @property
    def exit_code(self) -> int:
        """0 all well, 1 something is wrong; where one backend was asked about, 3 no software, 4 no hardware."""
        levels = [each.level for each in self.advice if self.asked or each.level == "wrong"]
        return next((code for level, code in _EXIT_CODES.items() if level in levels), 0)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {**asdict(self), "exit_code": self.exit_code}


def examine(
    name: str | None = None,
    *,
    acquire: bool = False,
    training: bool = False,
    load_seconds: float = LOAD_SECONDS,
    tell: Tell = lambda _who, _what: None,
) -> Diagnosis:
    """Return what is found about this environment and about backend ``name``, or every one.

    ``acquire`` lets calls be tried that take a card, ``training`` trains on one card and on two. ``load_seconds``
    bounds the loading of one backend's software; ``tell`` is called with who is being asked, and what.

    Raises :class:`BackendNotFoundError` and :class:`SettingsError`.
    """
    environment = examine_environment(os.environ, names())
    chosen = choose(name)
    stages = examination.stages(detect=CoreSettings.read().detect_timeout, load=load_seconds, acquire=acquire)

    def ask(each: Claimed) -> tuple[BackendReport, str]:
        if each.verdict is not None:
            return backend_report(each), ""
        question = examination.question(each.name, acquire=acquire)
        reply = backends.ask(queue, each.name, question, stages)
        return backend_report(each, reply), torch_import.problem_of(reply)

    with Queue(tell) as queue:
        lightning = queue.submit(namespaces.ask, queue)
        auto = queue.submit(selection.ask, queue, namespaces.namespace_rows(), load_seconds)
        asked = [queue.submit(ask, each) for each in chosen]
        (rows, recorded, problem), chose = lightning.result(), auto.result()
        problem = next(filter(None, [problem, *(each.result()[1] for each in asked)]), "")
        if problem:
            chose = Selection(None, "torch cannot be imported")
        found = [each.result()[0] for each in asked]
        reports = [replace(report, selected=report.states.name == chose.chosen) for report in found]
        trainings = train(queue, reports, choose_namespace(rows), load_seconds) if training and not problem else {}
    entries = dict.fromkeys([*recorded, *chose.record, *(entry for report in reports for entry in report.record)])
    return Diagnosis(
        northbridge=version("northbridge"),
        python=platform.python_version(),
        torch=torch_version(),
        system=describe_system(),
        torch_problem=problem,
        asked=name,
        environment=environment,
        namespaces=tuple(rows),
        selection=chose,
        backends=tuple(reports),
        trainings=trainings,
        record=tuple(entries),
        advice=(
            *([Advice("wrong", "torch", problem)] if problem else []),
            *advise(name, environment, rows, reports, chose, trainings),
        ),
    )


def choose(name: str | None) -> list[Claimed]:
    """Return who claims ``name``, or every name. Raises :class:`BackendNotFoundError` and :class:`SettingsError`."""
    refuse_unknown_simulation()
    chosen = [each for each in claimed() if name in (None, each.name)]
    if name is not None and not chosen:
        find(name)  # raises, with the names that there are
    return chosen
