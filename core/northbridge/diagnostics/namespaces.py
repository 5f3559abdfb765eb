"""Lightning in this environment: each namespace, and what ``accelerator="auto"`` selects in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Literal

from northbridge.diagnostics import torch_import
from northbridge.process_record import Entry, record
from northbridge.processes import child
from northbridge.processes.child import Reply, Reporter, Stage
from northbridge.processes.endings import describe_error

if TYPE_CHECKING:
    from northbridge.lightning.namespaces import Namespace
    from northbridge.processes.child import Queue

NamespaceStatus = Literal[
    "registered", "left alone", "not registered", "off", "malicious", "broken", "not installed", "not asked"
]

_IMPORT_SECONDS = 300.0
_AUTO = "auto"
_PATIENCE = "check the drivers, or try again once each chip is compiled"


@dataclass(frozen=True)
class NamespaceRow:
    """Facts about one of Lightning's namespaces."""

    name: str
    version: str
    distribution: str
    status: NamespaceStatus
    reason: str = ""

    @property
    def is_broken(self) -> bool:
        """True if it is installed, but cannot be served or must not be used."""
        return self.status in ("left alone", "malicious", "broken")


@dataclass(frozen=True)
class Selection:
    """Choice of ``auto``, and its reason; ``chosen`` is None if there is no backend to choose, or if it failed."""

    chosen: str | None
    reason: str
    failed: bool = False
    record: tuple[Entry, ...] = ()


WITHOUT_TORCH = Selection(None, "torch cannot be imported")


@dataclass(frozen=True)
class Asked:
    """What the child found that imported the namespaces."""

    rows: list[NamespaceRow]
    selection: Selection
    """What ``auto`` is, in a Trainer of the same child: another one would import Lightning again."""

    record: tuple[Entry, ...] = ()
    torch_problem: str = ""


def ask(queue: Queue, load_seconds: float) -> Asked:
    """Let a child import the namespaces, and then say what ``auto`` selects."""
    rows = namespace_rows()
    names = [row.name for row in rows if row.status == "not asked"]
    namespace = choose_namespace(rows)
    if namespace is None:
        return Asked(rows, Selection(None, "no Lightning is installed that Northbridge serves"))
    reply = queue.ask("Lightning", question(names, auto=namespace.name), stages(names, namespace, load_seconds))
    problem = torch_import.problem_of(reply)
    if problem:
        chose = WITHOUT_TORCH
    elif reply.ending and reply.stage != _AUTO:  # by a namespace that the selection may not need
        alone = queue.ask("auto", question([], auto=namespace.name), stages([], namespace, load_seconds))
        chose = _selection_of(alone, namespace)
    else:
        chose = _selection_of(reply, namespace)
    return Asked(namespace_rows(reply), chose, _record_of(reply), problem)


def choose_namespace(rows: Sequence[NamespaceRow]) -> Namespace | None:
    """Return the namespace that a user of this environment would use: one with a Trainer, if it exists."""
    from northbridge.lightning.namespaces import NAMESPACES

    served = [NAMESPACES[row.name] for row in rows if row.status in ("not asked", "registered", "not registered")]
    return min(served, key=lambda namespace: not namespace.is_trainer, default=None)


def judge() -> list[NamespaceRow]:
    """Return the namespaces' rows by metadata alone, where torch can be imported; the doctor imports them instead."""
    return [_judged(row) if row.status == "not asked" else row for row in namespace_rows()]


def find_torch_problem() -> str:
    """Return the reason why ``import torch`` fails in a child process; empty if it works."""
    return torch_import.problem_of(child.ask(question([]), stages([])))


def question(names: Sequence[str], auto: str = "") -> str:
    """Return the code that the namespaces' child runs; ``auto`` names the one that then selects an accelerator."""
    return f"from {__name__} import answer; answer({list(names)!r}, auto={auto!r})"


def stages(names: Sequence[str], auto: Namespace | None = None, load_seconds: float = 0.0) -> dict[str, Stage]:
    """Return the stages of the namespaces' child; ``auto`` is the namespace that then selects an accelerator."""
    lightnings = {name: Stage(f"importing {name}", _IMPORT_SECONDS, "check the disk") for name in names}
    asking = f"asking {auto.name} what accelerator='auto' is" if auto else ""
    selects = {_AUTO: Stage(asking, load_seconds, _PATIENCE)} if auto else {}
    return {"torch": torch_import.STAGE, **lightnings, **selects}


def answer(names: Sequence[str], auto: str = "") -> None:
    """Import torch and the namespaces in this child process, as a user's script would; report the record.

    Then build a Trainer or a Fabric of the namespace ``auto``, and end the process.
    """
    report = Reporter()
    torch_import.import_torch(report)
    failures, versions = {}, {}
    for name in names:
        report.begin(name)
        failures[name] = _import(name)
        package = sys.modules.get(name.partition(".")[0])
        versions[name] = str(getattr(package, "__version__", ""))
    found = {"failures": failures, "versions": versions, "record": [entry.as_dict() for entry in record()]}
    if not auto:
        report.end(**found)
    report.begin(_AUTO, **found)
    from northbridge.lightning.namespaces import NAMESPACES

    namespace, error = NAMESPACES[auto], ""
    try:
        host = getattr(import_module(auto), namespace.host)
        quietly = {"logger": False, "enable_checkpointing": False} if namespace.is_trainer else {}
        host(plugins=[one_machine(namespace)], **quietly)
    except (Exception, SystemExit) as failure:  # noqa: BLE001 - reported
        error = describe_error(failure)
    report.end(error=error, record=[entry.as_dict() for entry in record()])


def one_machine(namespace: Namespace) -> Any:
    """Return the cluster environment of a run on only this machine.

    On a cluster's node, the doctor's environment describes another run, and Lightning would check it against this one.
    """
    return namespace.fabric_module("plugins.environments").LightningEnvironment()


def _selection_of(reply: Reply, namespace: Namespace) -> Selection:
    entries = _record_of(reply)
    if reply.ending:
        return Selection(None, f"its process {reply.ending}", failed=True)
    if error := reply.facts.get("torch_problem") or reply.facts["error"]:
        return Selection(None, f"it raised {error}", failed=True, record=entries)
    chose = [entry for entry in entries if entry.subject == "auto" and entry.outcome.startswith("chose ")]
    if not chose:
        return Selection(None, f"Northbridge does not serve {namespace.name}", record=entries)
    return Selection(chose[-1].outcome.removeprefix("chose "), chose[-1].reason, record=entries)


def _import(name: str) -> str:
    try:
        import_module(name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - reported: each fault of Lightning gets a row
        return f"import {name} raised {describe_error(error)}; reinstall it"
    return ""


def namespace_rows(reply: Reply | None = None) -> list[NamespaceRow]:
    """Build the row of each namespace from the metadata and, if a child was asked, from its reply."""
    from northbridge.lightning.namespaces import NAMESPACES

    rows = [_installed(namespace) for namespace in NAMESPACES.values()]
    if reply is None:
        return rows
    return [_asked(row, reply) if row.status == "not asked" else row for row in rows]


def _record_of(reply: Reply) -> tuple[Entry, ...]:
    return tuple(Entry(**entry) for entry in reply.facts.get("record", ()))


def _installed(namespace: Namespace) -> NamespaceRow:
    for distribution in namespace.distributions:
        try:
            found = version(distribution)
        except PackageNotFoundError:
            continue
        from northbridge.lightning.versions import reason_against_uploads

        if reason := reason_against_uploads(namespace.distributions):
            return NamespaceRow(namespace.name, found, distribution, "malicious", reason)
        if reason := reason_against_uploads():  # of another namespace
            return NamespaceRow(namespace.name, found, distribution, "left alone", reason)
        return NamespaceRow(namespace.name, found, distribution, "not asked")
    return NamespaceRow(namespace.name, "", "", "not installed")


def _judged(row: NamespaceRow) -> NamespaceRow:
    from northbridge.lightning.versions import reason_against_version, untested

    if os.environ.get("NORTHBRIDGE_DISABLE", "").strip() == "1":
        return replace(row, status="off", reason="NORTHBRIDGE_DISABLE=1")
    if torch_import.is_switched_off() or _is_torch_too_old():
        return replace(row, status="not registered", reason=_why_nothing_ran())
    if reason := reason_against_version(row.version, (row.distribution,)):
        return replace(row, status="left alone", reason=f"{row.name}: {reason}")
    remark = untested(row.version)
    return replace(row, status="registered", reason=f"untested: {row.name} {row.version}{remark}" if remark else "")


def _asked(row: NamespaceRow, reply: Reply) -> NamespaceRow:
    if torch_import.problem_of(reply):
        return row
    if reply.ending and reply.stage != _AUTO:
        return replace(row, status="broken", reason=f"the process that imported it {reply.ending}")
    failure = reply.facts["failures"][row.name]
    if failure:
        return replace(row, status="broken", reason=failure)
    row = replace(row, version=reply.facts["versions"][row.name] or row.version)
    status, reason = _outcome(row, _record_of(reply))
    return replace(row, status=status, reason=reason)


def _outcome(row: NamespaceRow, entries: Sequence[Entry]) -> tuple[NamespaceStatus, str]:
    from northbridge.lightning.versions import untested

    said = {entry.subject: entry for entry in entries if entry.subject in (row.name, "northbridge")}
    entry = said.get(row.name) or said.get("northbridge")
    if entry is None:
        return "not registered", _why_nothing_ran()
    if entry.outcome == "registered":
        return "registered", f"untested: {entry.reason}" if untested(row.version) else ""
    if entry.outcome == "off":
        return "off", entry.reason
    return "left alone", entry.reason


def _why_nothing_ran() -> str:
    by_hand = torch_import.BY_HAND
    if torch_import.is_switched_off():
        variable = torch_import.SWITCH
        value = os.environ[variable]
        return f"{variable}={value} keeps torch from starting Northbridge: {by_hand}, or unset the variable"
    if _is_torch_too_old():
        return f"torch {version('torch')} starts nothing by itself: {by_hand}, or upgrade to torch 2.5 or later"
    return f"torch's autoload was off while torch was imported: {by_hand}, or reinstall Northbridge"


def _is_torch_too_old() -> bool:
    return tuple(map(int, version("torch").split(".")[:2])) < (2, 5)
