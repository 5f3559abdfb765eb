"""The accelerator that ``accelerator="auto"`` selects here, according to a Trainer of the user's Lightning."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from northbridge.process_record import Entry, record
from northbridge.processes.child import Reply, Reporter, Stage

if TYPE_CHECKING:
    from northbridge.lightning.namespaces import Namespace
    from northbridge.processes.child import Queue

STAGE = "auto"
_PATIENCE = "check the drivers, or try again once each chip is compiled"


@dataclass(frozen=True)
class Selection:
    """Choice of ``auto``, and its reason; ``chosen`` is None if there is no backend to choose, or if it failed."""

    chosen: str | None
    reason: str
    failed: bool = False
    record: tuple[Entry, ...] = ()


WITHOUT_TORCH = Selection(None, "torch cannot be imported")


def ask(queue: Queue, namespace: Namespace | None, load_seconds: float) -> Selection:
    """Return the selection that a child process of its own makes."""
    if namespace is None:
        return Selection(None, "no Lightning is installed that Northbridge serves")
    question = f"from {__name__} import answer; answer({namespace.name!r})"
    return selection_of(queue.ask("auto", question, stages(namespace, load_seconds)), namespace)


def stages(namespace: Namespace, load_seconds: float) -> dict[str, Stage]:
    """Return the stage in which :func:`choose` runs."""
    return {STAGE: Stage(f"asking {namespace.name} what accelerator='auto' is", load_seconds, _PATIENCE)}


def selection_of(reply: Reply, namespace: Namespace) -> Selection:
    """Return the selection that the child made that replied."""
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
    """Make the selection in this process, the child."""
    report = Reporter()
    report.begin(STAGE)
    choose(namespace, report)


def choose(namespace: str, report: Reporter) -> NoReturn:
    """Build a Trainer or a Fabric in this process, a child; report the record, and end the process."""
    from northbridge.lightning.namespaces import NAMESPACES
    from northbridge.processes.endings import describe_error

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
