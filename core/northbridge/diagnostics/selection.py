"""The accelerator that ``accelerator="auto"`` selects here, according to a Trainer of the user's Lightning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from northbridge.process_record import Entry, record
from northbridge.processes.child import Reporter, Stage

if TYPE_CHECKING:
    from northbridge.diagnostics.namespaces import NamespaceRow
    from northbridge.lightning.namespaces import Namespace
    from northbridge.processes.queue import Queue

_PATIENCE = "check the drivers, or try again once each chip is compiled"


@dataclass(frozen=True)
class Selection:
    """Choice of ``auto``, and its reason; ``chosen`` is None if there is no backend to choose, or if it failed."""

    chosen: str | None
    reason: str
    failed: bool = False
    record: tuple[Entry, ...] = ()


def choose_namespace(rows: Sequence[NamespaceRow]) -> Namespace | None:
    """Return the namespace that a user of this environment would use: one with a Trainer, if it exists."""
    from northbridge.lightning.namespaces import NAMESPACES

    served = [NAMESPACES[row.name] for row in rows if row.status in ("not asked", "registered", "not registered")]
    return min(served, key=lambda namespace: not namespace.is_trainer, default=None)


def ask(queue: Queue, rows: Sequence[NamespaceRow], load_seconds: float) -> Selection:
    """Return the selection that a child process makes."""
    namespace = choose_namespace(rows)
    if namespace is None:
        return Selection(None, "no Lightning is installed that Northbridge serves")
    stage = Stage(f"asking {namespace.name} what accelerator='auto' is", load_seconds, _PATIENCE)
    question = f"from {__name__} import answer; answer({namespace.name!r})"
    reply = queue.ask("auto", question, {"auto": stage})
    entries = tuple(Entry(**entry) for entry in reply.facts.get("record", ()))
    if reply.ending:
        return Selection(None, f"its process {reply.ending}", failed=True)
    if reply.facts["error"]:
        return Selection(None, f"it raised {reply.facts['error']}", failed=True, record=entries)
    chose = [entry for entry in entries if entry.subject == "auto" and entry.outcome.startswith("chose ")]
    if not chose:
        return Selection(None, f"Northbridge does not serve {namespace.name}", record=entries)
    return Selection(chose[-1].outcome.removeprefix("chose "), chose[-1].reason, record=entries)


def answer(namespace: str) -> None:
    """Build a Trainer or a Fabric in this process, the child; report the record."""
    from northbridge.lightning.namespaces import NAMESPACES
    from northbridge.processes.endings import describe_error

    report = Reporter()
    report.begin("auto")
    error = ""
    try:
        host = getattr(import_module(namespace), NAMESPACES[namespace].host)
        quietly = {"logger": False, "enable_checkpointing": False} if NAMESPACES[namespace].is_trainer else {}
        host(plugins=[one_machine(NAMESPACES[namespace])], **quietly)
    except (Exception, SystemExit) as failure:  # noqa: BLE001 - reported
        error = describe_error(failure)
    report.end(error=error, record=[entry.as_dict() for entry in record()])


def one_machine(namespace: Namespace) -> Any:
    """Return the cluster environment of a run on only this machine.

    On a cluster's node, the doctor's environment describes another run, and Lightning would check it against this one.
    """
    return namespace.fabric_module("plugins.environments").LightningEnvironment()
