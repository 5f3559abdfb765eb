"""A diagnosis: everything that was found out about this environment, and the advice: problems and fixes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from northbridge.contract import Finding
    from northbridge.diagnostics.backends import BackendReport, ContractReport
    from northbridge.diagnostics.environment import Variable
    from northbridge.diagnostics.namespaces import NamespaceRow, Selection
    from northbridge.diagnostics.training import SelfTest
    from northbridge.process_record import Entry

AdviceLevel = Literal["wrong", "software missing", "hardware missing", "note"]
_EXIT_CODES = {"wrong": 1, "software missing": 3, "hardware missing": 4}


@dataclass(frozen=True)
class Advice:
    """One problem or note: its subject, and a text that ends with the fix."""

    level: AdviceLevel
    about: str
    what: str


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """All findings; fields that a list does not need are empty.

    The keys of the doctor's JSON are the names of these fields and of their parts' fields.
    """

    northbridge: str
    python: str
    torch: str | None
    system: str = ""
    torch_problem: str = ""
    """The reason why ``import torch`` fails; then everything that needs torch is unknown."""
    asked: str | None = None
    """The backend that was asked about; None for all backends."""
    environment: tuple[Variable, ...] = ()
    namespaces: tuple[NamespaceRow, ...]
    selection: Selection | None = None
    backends: tuple[BackendReport, ...]
    trainings: dict[str, tuple[SelfTest, ...]] = field(default_factory=dict)
    """By the backend's name; empty if no training was asked for."""
    record: tuple[Entry, ...] = ()
    advice: tuple[Advice, ...] = ()

    @property
    def broken(self) -> bool:
        """True if torch, a backend, or an installed namespace of Lightning cannot work."""
        backends = any(each.states.is_broken for each in self.backends)
        return bool(self.torch_problem) or backends or any(row.is_broken for row in self.namespaces)

    @property
    def exit_code(self) -> int:
        """0 if all is well, 1 if something is wrong; for one backend, 3 without software, 4 without hardware."""
        levels = [each.level for each in self.advice if self.asked or each.level == "wrong"]
        return next((code for level, code in _EXIT_CODES.items() if level in levels), 0)

    def as_list(self) -> dict[str, Any]:
        """Return the fields of a list, as plain values for JSON."""
        told = asdict(self)
        told["backends"] = [each["states"] for each in told["backends"]]
        keys = ("northbridge", "python", "torch", "backends", "namespaces", "record", "torch_problem")
        return {key: told[key] for key in keys}

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, as plain values for JSON."""
        return {**asdict(self), "exit_code": self.exit_code}


def advise(found: Diagnosis) -> tuple[Advice, ...]:
    """Return the problems of one backend, or of all, in the order in which to act.

    Causes come before their consequences, errors before missing parts, and those before notes.
    """
    environment, namespaces, backends, auto = found.environment, found.namespaces, found.backends, found.selection
    trainings = [(name, each) for name, tried in found.trainings.items() for each in tried]
    told: list[Advice] = [
        *([Advice("wrong", "torch", found.torch_problem)] if found.torch_problem else []),
        *(Advice("wrong", row.name, row.reason) for row in namespaces if row.status == "malicious"),
        *(Advice("wrong", each.name, each.reason) for each in environment if each.verdict == "wrong"),
        *(Advice("wrong", each.states.name, each.environment_problem) for each in backends if each.environment_problem),
        *(advice for each in backends for advice in _about_states(each, found.asked)),
        *(Advice("wrong", each.states.name, each.acquire_problem) for each in backends if each.acquire_problem),
        *(advice for each in backends for advice in _about_contract(each)),
        *(advice for each in backends for advice in _about_defaults(each)),
        *(Advice("wrong", name, _failure(each)) for name, each in trainings if each.reason),
        *(Advice("wrong", row.name, row.reason) for row in namespaces if row.is_broken and row.status != "malicious"),
        *([Advice("wrong", "accelerator='auto'", auto.reason)] if auto and auto.failed else []),
        *(Advice("wrong", each.states.name, each.machine_problem) for each in backends if each.machine_problem),
        *(Advice("note", row.name, row.reason) for row in namespaces if row.reason and not row.is_broken),
        *(Advice("note", each.name, each.reason) for each in environment if each.verdict == "note"),
    ]
    order: list[AdviceLevel] = ["wrong", "software missing", "hardware missing", "note"]
    return tuple(sorted(_without_repetition(told), key=lambda each: order.index(each.level)))


def _about_states(report: BackendReport, asked: str | None) -> Iterator[Advice]:
    levels: dict[str, AdviceLevel] = {
        "broken": "wrong",
        "timed out": "wrong",
        "off": "wrong" if asked else "note",
        "no software": "software missing",
        "no hardware": "hardware missing",
        "other chip": "wrong" if asked else "note",
        "unsupported": "wrong" if asked else "note",
        "ready": "note",
    }
    states = report.states
    if states.status in levels and states.reason:
        yield Advice(levels[states.status], states.name, states.reason)


def _about_contract(report: BackendReport) -> Iterator[Advice]:
    name, contract = report.states.name, report.contract
    if report.contract_problem:
        yield Advice("wrong", name, report.contract_problem)
    if contract is None:
        return
    if contract.unfinished:
        what = f"its process ended while {contract.unfinished} was checked; the lines after it were not"
        yield Advice("wrong", name, what)
    for finding in sorted(contract.findings, key=lambda each: not each.required):
        if finding.verdict == "wrong":
            yield Advice("wrong", name, _disagreement(finding, contract))


def _about_defaults(report: BackendReport) -> Iterator[Advice]:
    level: AdviceLevel = "wrong" if report.states.status == "ready" else "note"  # no run here would meet it
    yield from (Advice(level, report.states.name, problem) for problem in report.device_problems)


def _disagreement(finding: Finding, contract: ContractReport) -> str:
    from northbridge.contract import cure  # takes longer to import than a list takes

    place = f"contract.toml line {finding.line} ({finding.evidence}, {finding.source})"
    what_to_do = cure(contract.vendor, finding.since)
    return f"{finding.name}{finding.signature}: {finding.found}; {place} is wrong here: {what_to_do}"


def _failure(training: SelfTest) -> str:
    return f"{training.through} on {training.cards} card{'s' * (training.cards > 1)}: {training.reason}"


def _without_repetition(found: Iterable[Advice]) -> Iterator[Advice]:
    told: set[str] = set()
    for each in found:
        if each.what not in told:
            told.add(each.what)
            yield each
