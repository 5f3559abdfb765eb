"""One report on this environment, at two depths: ``northbridge list`` and ``northbridge doctor``.

Metadata is read in this process. Calls that can crash, hang or print run in child processes with time limits. Reading
only metadata imports neither torch nor a plugin, and pydantic only if a ``NORTHBRIDGE_`` variable is set.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from northbridge.diagnostics.backends import BackendReport, Claimed, claimed, report_on
from northbridge.diagnostics.diagnosis import Diagnosis, advise
from northbridge.diagnostics.namespaces import WITHOUT_TORCH, NamespaceRow, choose_namespace, namespace_rows

if TYPE_CHECKING:
    from northbridge.process_record import Entry
    from northbridge.processes.child import Tell

LOAD_SECONDS = 600.0
"""Time limit for loading one backend's software: a chip that is compiled on first use takes minutes."""


def read_metadata() -> Diagnosis:
    """Read the metadata of the installed distributions, importing none of them. Raises SettingsError."""
    return _diagnosis([report_on(each) for each in claimed()], namespace_rows())


def examine(
    name: str | None = None,
    *,
    deep: bool = False,
    acquire: bool = False,
    training: bool = False,
    load_seconds: float = LOAD_SECONDS,
    tell: Tell = lambda _who, _what: None,
) -> Diagnosis:
    """Examine this environment and backend ``name``, or every backend, in child processes.

    ``deep`` is the doctor's depth: the machine, the environment, the contract, the choice of ``auto``, and advice.
    There, ``acquire`` allows calls that acquire a card, and ``training`` trains on one card and on two.
    ``load_seconds`` limits the loading of one backend. ``tell`` is called with each question's subject and stage.

    Raises :class:`BackendNotFoundError` and :class:`SettingsError`.
    """
    from northbridge.diagnostics import examination, namespaces
    from northbridge.processes.child import Queue

    given = dict(os.environ)  # a vendor's import sets some
    chosen = choose(name)
    depth = examination.Depth(load_seconds, everything=deep, acquire=acquire)
    with Queue(tell) as queue:
        asking = queue.submit(namespaces.ask, queue, load_seconds) if deep else None
        asked = [queue.submit(examination.ask, queue, each, depth) for each in chosen]
        replies = [each.result() for each in asked]
        lightning = asking.result() if asking else None
        rows = lightning.rows if lightning else namespace_rows()
        problems = [lightning.torch_problem if lightning else "", *(each for _, each in replies)]
        problem = next(filter(None, problems), "")
        if lightning is None:
            # Where no backend could be loaded, perhaps no child has imported torch.
            if not problem and not any(each.states.loadable for each, _ in replies):
                problem = namespaces.find_torch_problem()
            rows = rows if problem else namespaces.judge()
        reports = [report for report, _ in replies]
        if problem:
            reports = [_unknown(report, claim) for report, claim in zip(reports, chosen, strict=True)]
        # That a child has loaded its backend is said by the table.
        noted = (entry for each in reports for entry in each.record if entry.outcome != "loaded")
        record = lightning.record if lightning else tuple(noted)
        found = _diagnosis(reports, rows, torch_problem=problem, record=tuple(dict.fromkeys(record)))
        if lightning is None:
            return found
        chose = WITHOUT_TORCH if problem else lightning.selection
        found = replace(
            found,
            asked=name,
            selection=chose,
            backends=tuple(replace(each, selected=each.states.name == chose.chosen) for each in found.backends),
        )
        if training and not problem:
            from northbridge.diagnostics.training import train

            namespace = choose_namespace(rows)
            found = replace(found, trainings=train(queue, found.backends, namespace, load_seconds))
    return _advised(found, given)


def _unknown(report: BackendReport, claim: Claimed) -> BackendReport:
    """Take back that the software is missing: without torch, a bridge cannot know."""
    return replace(report, states=report_on(claim).states) if report.states.status == "no software" else report


def choose(name: str | None) -> list[Claimed]:
    """Return the claims of ``name``, or all. Raises BackendNotFoundError and SettingsError."""
    from northbridge.discovery.installed import find
    from northbridge.discovery.simulated import reject_unknown_simulation
    from northbridge.settings import CoreSettings

    CoreSettings.read()
    reject_unknown_simulation()
    chosen = [each for each in claimed() if name in (None, each.name)]
    if name is not None and not chosen:
        find(name)  # raises, with the existing names
    return chosen


def _diagnosis(
    backends: Iterable[BackendReport],
    namespaces: Iterable[NamespaceRow],
    torch_problem: str = "",
    record: tuple[Entry, ...] = (),
) -> Diagnosis:
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = None
    return Diagnosis(
        northbridge=version("northbridge"),
        python=platform.python_version(),
        torch=torch,
        torch_problem=torch_problem,
        backends=tuple(backends),
        namespaces=tuple(namespaces),
        record=record,
    )


def _advised(found: Diagnosis, environ: Mapping[str, str]) -> Diagnosis:
    """Add the findings of this process and the advice to the diagnosis."""
    from northbridge.diagnostics.environment import describe_system, examine_environment
    from northbridge.discovery.installed import names

    chosen = found.selection.record if found.selection else ()
    record = dict.fromkeys([*found.record, *chosen, *(entry for each in found.backends for entry in each.record)])
    environment = examine_environment(environ, names())
    found = replace(found, system=describe_system(), environment=environment, record=tuple(record))
    return replace(found, advice=advise(found))
