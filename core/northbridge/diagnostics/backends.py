"""One backend: the facts in its metadata, and a child process's findings."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from northbridge.diagnostics import torch_import
from northbridge.discovery.installed import LIGHTNING_NAMES, Plugin, describe, find, installed, reject_unknown_disabled
from northbridge.errors import BackendError
from northbridge.process_record import Entry

if TYPE_CHECKING:
    from northbridge.contract import Finding
    from northbridge.processes.child import Reply

BackendStatus = Literal[
    "ready", "no hardware", "no software", "other chip", "unsupported", "timed out", "broken", "off", "not asked"
]

FINDING = "finding "
"""Prefix of the facts about a line of the contract; the line's number follows."""


@dataclass(frozen=True)
class BackendRow:
    """The state that a backend reaches; a field is None if it was not asked for or not answered."""

    name: str
    version: str
    distribution: str
    status: BackendStatus
    loadable: bool | None = None
    devices: int | None = None
    cards: int | None = None
    """Number of cards behind the devices, for chips with several devices on a card."""
    simulated: bool | None = None
    alone: bool = False
    """True if it has no communication library, so that it trains on one device."""
    reason: str = ""

    @property
    def is_broken(self) -> bool:
        """True if something is wrong, other than missing hardware or software."""
        return self.status in ("broken", "timed out")


@dataclass(frozen=True)
class VendorVariable:
    """One variable of the contract; ``written`` is the value that the vendor's software set when it was loaded."""

    name: str
    value: str | None
    written: str | None
    meaning: str
    evidence: str


@dataclass(frozen=True)
class ContractReport:
    """The contract and its checked lines; inferred lines come first."""

    path: str
    vendor: str
    distributions: dict[str, str | None]
    lines: int
    inferred: int
    checked: bool
    unfinished: str
    """The symbol at which the child ended."""
    variables: tuple[VendorVariable, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class BackendReport:
    """Everything that is known about one backend; a field is empty if it was not asked for or not answered."""

    states: BackendRow
    selected: bool = False
    """True if ``accelerator="auto"`` chooses it here."""
    device_type: str = ""
    """The way in which its software registered torch's device type; empty if it is not loaded."""
    machine: dict[str, Any] = field(default_factory=dict)
    machine_problem: str = ""
    environment_problem: str = ""
    device_problems: tuple[str, ...] = ()
    """The problems of its Device's defaults."""

    contract: ContractReport | None = None
    contract_problem: str = ""
    acquire_problem: str = ""
    record: tuple[Entry, ...] = ()


@dataclass(frozen=True)
class Claimed:
    """One backend's name, the plugins that claim it, and the verdict if the metadata suffices for one."""

    name: str
    plugins: tuple[Plugin, ...]
    verdict: tuple[BackendStatus, str] | None = None


def claimed() -> list[Claimed]:
    """Return every claimed name, in order; imports no plugin. Raises :class:`SettingsError`."""
    reject_unknown_disabled()
    everything = groupby(installed(), key=lambda plugin: plugin.name)
    return [Claimed(name, plugins := tuple(group), _verdict(name, plugins)) for name, group in everything]


def report_on(claim: Claimed, reply: Reply | None = None) -> BackendReport:
    """Build the report on one backend from the metadata and, if a child was asked, from its reply."""
    states = _row(claim, reply)
    if reply is None:
        return BackendReport(states)
    facts = reply.facts
    told = ("device_type", "machine_problem", "environment_problem", "contract_problem", "acquire_problem")
    return BackendReport(
        states,
        machine=facts.get("machine", {}),
        contract=_contract_report(facts) if "contract" in facts else None,
        device_problems=tuple(facts.get("device_problems", ())),
        record=tuple(Entry(**entry) for entry in facts.get("record", ())),
        **{fact: facts.get(fact, "") for fact in told},
    )


def _verdict(name: str, plugins: tuple[Plugin, ...]) -> tuple[BackendStatus, str] | None:
    # Reading the settings takes as long as the rest of a plain listing, and is needed only if a variable is set.
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


def _row(claim: Claimed, reply: Reply | None) -> BackendRow:
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
        alone=reply.facts.get("alone", False),
        reason=reason,
    )


def _judge(claim: Claimed, reply: Reply) -> tuple[BackendStatus, str]:
    error = str(reply.facts.get("error", ""))
    if reply.ending:
        error = f"{describe(claim.name)}: its process {reply.ending}, or set NORTHBRIDGE_DISABLE={claim.name}"
    if reply.facts.get("missing"):
        return "no software", error
    if reply.facts.get("devices") == 0:
        # Software that does not load on a machine without its hardware is not broken.
        return "no hardware", "this machine has no such device" + (f"; {error}" if error else "")
    if reply.facts.get("taken"):
        return "other chip", error  # its software comes with torch on this machine: not broken
    if reply.facts.get("unsupported"):
        return "unsupported", error
    if reply.facts.get("timed_out") or (reply.ending and reply.exit_code is None):
        return "timed out", error
    if error:
        return "broken", error
    alone = ["it has no communication library: it trains on one device"] if reply.facts.get("alone") else []
    switched = [torch_import.tell_of(reply.facts["package"])] if reply.facts.get("switches_off") else []
    return "ready", "; ".join([*alone, *switched])


def _contract_report(facts: dict[str, Any]) -> ContractReport:
    from northbridge.contract import Finding

    findings = [Finding(**fact) for name, fact in facts.items() if name.startswith(FINDING)]
    return ContractReport(
        **facts["contract"],
        unfinished=facts.get("unfinished", ""),
        variables=tuple(VendorVariable(**each) for each in facts["variables"]),
        findings=tuple(sorted(findings, key=lambda each: (each.evidence != "inferred", each.line))),
    )
