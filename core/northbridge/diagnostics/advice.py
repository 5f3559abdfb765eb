"""Advice: problems and fixes, most important first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from northbridge.contract import Finding, cure
from northbridge.diagnostics.diagnosis import Advice, AdviceLevel, Diagnosis

if TYPE_CHECKING:
    from northbridge.diagnostics.backends import BackendReport, ContractReport
    from northbridge.diagnostics.training import SelfTest


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
