"""One backend in the list: what its metadata announces, and what a child process finds behind it."""

from __future__ import annotations

import operator
import os
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from northbridge.diagnostics import torch_import
from northbridge.discovery.installed import LIGHTNING_NAMES, Plugin, describe, find, installed, refuse_unknown_disabled
from northbridge.errors import (
    BackendError,
    DeviceTypeTakenError,
    NorthbridgeError,
    SoftwareMissingError,
    UnsupportedError,
)
from northbridge.processes.child import Reporter, Stage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from northbridge.processes.child import Queue, Reply

Status = Literal["ready", "no hardware", "no software", "other chip", "unsupported", "broken", "off", "not asked"]


@dataclass(frozen=True)
class BackendRow:
    """What is known about one backend; ``None`` where nobody asked, or where no answer came."""

    name: str
    version: str
    distribution: str
    status: Status
    loadable: bool | None = None
    devices: int | None = None
    cards: int | None = None
    """On how many cards the devices lie, where a card may be several."""
    simulated: bool | None = None
    reason: str = ""

    @property
    def is_broken(self) -> bool:
        """Whether something is wrong, other than that hardware or software is simply not there."""
        return self.status == "broken"


@dataclass(frozen=True)
class Claimed:
    """One backend's name, who claims it, and the verdict where the metadata is enough for one."""

    name: str
    plugins: tuple[Plugin, ...]
    verdict: tuple[Status, str] | None = None


def claimed() -> list[Claimed]:
    """Return every name that is claimed, in order; imports no plugin. Raises :class:`SettingsError`."""
    refuse_unknown_disabled()
    everything = groupby(installed(), key=lambda plugin: plugin.name)
    return [Claimed(name, plugins := tuple(group), _verdict(name, plugins)) for name, group in everything]


def _verdict(name: str, plugins: tuple[Plugin, ...]) -> tuple[Status, str] | None:
    # The settings cost as much as all the rest of a plain listing, and mean nothing where no variable is set.
    if any(variable.startswith("NORTHBRIDGE_") for variable in os.environ):
        from northbridge.settings import CoreSettings

        if CoreSettings.read().disables(name):
            return "off", f"switched off by NORTHBRIDGE_DISABLE={os.environ['NORTHBRIDGE_DISABLE']}"
    # Each find() scans the metadata again; a name that only one plugin claims cannot be in conflict.
    if len(plugins) > 1 or name in LIGHTNING_NAMES:
        try:
            find(name)
        except BackendError as error:
            return "broken", str(error)
    return None


def stages(*, detect: float, load: float) -> dict[str, Stage]:
    """Return what a backend's child does, with the limits in seconds."""
    patience = "is the driver healthy? NORTHBRIDGE_DETECT_TIMEOUT=seconds allows more"
    return {
        "declare": Stage("importing its plugin", detect, patience),
        "detect": Stage("counting its devices", detect, patience),
        "torch": torch_import.STAGE,
        "load": Stage(
            "loading its software, which may be compiled first",
            load,
            "is the driver healthy, or is it still compiling? --load-timeout=seconds allows more",
        ),
    }


def question(name: str) -> str:
    """Return the code that a backend's child runs."""
    return f"from {__name__} import answer; answer({name!r})"


def answer(name: str) -> None:
    """Report on one backend from this process, the child: what a run that asks for it by name would meet."""
    report = Reporter()
    report.end(**bring_up(name, report))


def bring_up(name: str, report: Reporter) -> dict[str, object]:
    """Go through the stages of one backend in this process, the child; return what the last of them has found."""
    # Here and not above: a plain listing reads metadata alone, and is not to pay for what the child needs.
    from northbridge.discovery.cards import counted_cards
    from northbridge.discovery.declared import get
    from northbridge.discovery.loaded import load
    from northbridge.discovery.present import detect
    from northbridge.processes.environment import forget
    from northbridge.processes.question import ANSWERS

    report.begin("declare")
    # Another process of this tree may have asked before: what it was told may be old by now.
    forget(ANSWERS)
    try:
        backend = get(name)
        capabilities = backend.capabilities
        report.begin("detect", simulated=capabilities.simulated)
        devices = operator.index(detect(backend))
        report.begin("detect", devices=devices)
        torch_import.import_torch(report)
        report.begin("load")
        load(backend)
        report.begin("load", cards=counted_cards(backend, range(devices), total=devices))
    except NorthbridgeError as error:
        return {
            "loadable": False,
            "error": str(error),
            "missing": isinstance(error, SoftwareMissingError),
            "taken": isinstance(error, DeviceTypeTakenError),
            "unsupported": isinstance(error, UnsupportedError),
        }
    return {"loadable": True, "package": None if capabilities.simulated else backend.bridge.package}


def backend_row(claim: Claimed, reply: Reply | None = None) -> BackendRow:
    """Return the row of one backend, from the metadata and, where a child was asked, from its reply."""
    row = BackendRow(
        name=claim.name,
        version=", ".join(plugin.version for plugin in claim.plugins),
        distribution=", ".join(plugin.distribution for plugin in claim.plugins),
        status="not asked",
    )
    if claim.verdict is not None:
        status, reason = claim.verdict
        return replace(row, status=status, reason=reason)
    if reply is None or torch_import.problem_of(reply):
        return row
    status, reason = _judge(claim, reply)
    return replace(
        row,
        status=status,
        loadable=reply.facts.get("loadable", False),
        devices=reply.facts.get("devices"),
        cards=reply.facts.get("cards"),
        simulated=reply.facts.get("simulated"),
        reason=reason,
    )


def _judge(claim: Claimed, reply: Reply) -> tuple[Status, str]:
    error = str(reply.facts.get("error", ""))
    if reply.ending:
        comma = "" if reply.ending.endswith("?") else ","
        cure = f"NORTHBRIDGE_DISABLE={claim.name} switches the backend off"
        error = f"{describe(claim.name)}: its process {reply.ending}{comma} {cure}"
    if reply.facts.get("missing"):
        return "no software", error
    if reply.facts.get("devices") == 0:
        # Software that does not load where its hardware is absent is not broken by that.
        return "no hardware", "this machine has no such device" + (f"; {error}" if error else "")
    if reply.facts.get("taken"):
        return "other chip", error  # its software comes with torch on this machine: nothing is broken by that
    if reply.facts.get("unsupported"):
        return "unsupported", error
    if error:
        return "broken", error
    return "ready", torch_import.tell_of(reply.facts["package"]) if reply.facts.get("switches_off") else ""


def ask(queue: Queue, name: str, question: str, stages: Mapping[str, Stage]) -> Reply:
    """Return what a child says of backend ``name``, and another of whether its software switches autoload off."""
    reply = queue.ask(name, question, stages)
    package = reply.facts.get("package")
    if package is None or torch_import.is_switched_off():
        return reply
    first = queue.ask(name, torch_import.question(package), {"package": stages["load"]})
    return replace(reply, facts={**reply.facts, "switches_off": first.facts.get("switches_off", False)})
