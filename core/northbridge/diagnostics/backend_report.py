"""The report on one backend: how far it comes, what its machine is, and whether its contract holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from northbridge.contract import Finding
from northbridge.diagnostics.backends import backend_row
from northbridge.diagnostics.examination import FINDING
from northbridge.process_record import Entry

if TYPE_CHECKING:
    from northbridge.diagnostics.backends import BackendRow, Claimed
    from northbridge.processes.child import Reply


@dataclass(frozen=True)
class VendorVariable:
    """One variable of the contract; ``written`` is what the vendor's software made of it when it was loaded."""

    name: str
    value: str | None
    written: str | None
    meaning: str
    evidence: str


@dataclass(frozen=True)
class ContractReport:
    """The contract, and its lines as far as they could be checked; what was inferred comes first."""

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
    """Everything that is known about one backend; empty where no answer came."""

    states: BackendRow
    selected: bool = False
    """Whether ``accelerator="auto"`` takes it here."""
    device_type: str = ""
    """What its software has made torch's device type of; empty where it is not loaded."""
    machine: dict[str, Any] = field(default_factory=dict)
    machine_problem: str = ""
    environment_problem: str = ""
    contract: ContractReport | None = None
    contract_problem: str = ""
    acquire_problem: str = ""
    record: tuple[Entry, ...] = ()


def backend_report(claim: Claimed, reply: Reply | None = None) -> BackendReport:
    """Return the report on one backend, from the metadata and, where a child was asked, from its reply."""
    states = backend_row(claim, reply)
    if reply is None:
        return BackendReport(states)
    facts = reply.facts
    told = ("device_type", "machine_problem", "environment_problem", "contract_problem", "acquire_problem")
    return BackendReport(
        states,
        machine=facts.get("machine", {}),
        contract=_contract_report(facts) if "contract" in facts else None,
        record=tuple(Entry(**entry) for entry in facts.get("record", ())),
        **{fact: facts.get(fact, "") for fact in told},
    )


def _contract_report(facts: dict[str, Any]) -> ContractReport:
    findings = [Finding(**fact) for name, fact in facts.items() if name.startswith(FINDING)]
    return ContractReport(
        **facts["contract"],
        unfinished=facts.get("unfinished", ""),
        variables=tuple(VendorVariable(**each) for each in facts["variables"]),
        findings=tuple(sorted(findings, key=lambda each: (each.evidence != "inferred", each.line))),
    )
