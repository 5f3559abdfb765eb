"""Printing of the diagnosis for a person."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.text import Text

from northbridge.diagnostics.backends import BackendReport, ContractReport, VendorVariable
from northbridge.diagnostics.diagnosis import Diagnosis
from northbridge.diagnostics.environment import HIDDEN
from northbridge.diagnostics.table import add_row, make_table, print_pairs, show_rows, show_torch_problem
from northbridge.diagnostics.training import SelfTest
from northbridge.untrusted.terminal import Terminal

_STYLES = {
    "wrong": "red",
    "software missing": "yellow",
    "hardware missing": "yellow",
    "note": "yellow",
    "holds": "green",
}


def show(diagnosis: Diagnosis, *, trained: bool) -> None:
    """Print everything to stdout; ``trained`` is True if a training was asked for."""
    console = Terminal(highlight=False)
    show_torch_problem(console, diagnosis.torch_problem)
    torch = f"torch {diagnosis.torch}" if diagnosis.torch else "no torch"
    console.print(f"Northbridge {diagnosis.northbridge}, Python {diagnosis.python}, {torch}")
    console.print(f"{diagnosis.system}\n")
    show_rows(console, diagnosis)
    _show_selection(console, diagnosis)
    _show_environment(console, diagnosis)
    for report in diagnosis.backends:
        _show_machine(console, report)
        if report.contract is not None:
            _show_contract(console, report.states.name, report.contract)
        if trained:
            _show_trainings(console, report.states.name, diagnosis.trainings.get(report.states.name, ()))
    _show_advice(console, diagnosis)


def _title(console: Terminal, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold"))


def _show_selection(console: Terminal, diagnosis: Diagnosis) -> None:
    chose = diagnosis.selection
    assert chose is not None
    selected = f"selects {chose.chosen}" if chose.chosen else "failed" if chose.failed else "was not asked"
    _title(console, f"accelerator='auto' {selected}: {chose.reason}")
    print_pairs(console, [(each.subject, f"{each.outcome}: {each.reason}", "") for each in diagnosis.record])


def _show_environment(console: Terminal, diagnosis: Diagnosis) -> None:
    if not diagnosis.environment:
        _title(console, "No variable of Northbridge's or of a cluster's is set.")
        return
    _title(console, "Variables of Northbridge's, and of a cluster's")
    words = {None: "is not set", HIDDEN: "is set"}
    rows = [(each, words.get(each.value) or repr(each.value)) for each in diagnosis.environment]
    print_pairs(
        console,
        [
            (each.name, f"{value}: {each.verdict}" + (f", {each.reason}" if each.reason else ""), _style(each.verdict))
            for each, value in rows
        ],
    )


def _show_machine(console: Terminal, report: BackendReport) -> None:
    if not report.machine and not report.device_type:
        return
    _title(console, f"{report.states.name}: its machine")
    lines = [("to torch", report.device_type, "")] if report.device_type else []
    for name, value in report.machine.items():
        texts = [f"{key}: {_in_words(each)}" for key, each in value.items()] if isinstance(value, dict) else []
        texts = [_in_words(each) for each in value] if isinstance(value, list) else texts
        texts = texts or ["none" if value in ({}, []) else _in_words(value)]
        lines += [("" if number else name, text, "") for number, text in enumerate(texts)]
    print_pairs(console, lines)


def _in_words(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_in_words(each)}" for name, each in value.items())
    text = "-" if value is None else value if isinstance(value, str) else json.dumps(value)
    return " ".join(text.split())


def _show_contract(console: Terminal, name: str, contract: ContractReport) -> None:
    inferred = f"{contract.lines} lines, {contract.inferred} of them inferred"
    checked = "" if contract.checked else "; none was checked, as the software is not loaded"
    _title(console, f"{name}: its contract with {contract.vendor}: {inferred}{checked}")
    known = [(each, found or "not installed", "") for each, found in contract.distributions.items()]
    known += [(each.name, _value(each), "") for each in contract.variables if _is_set(each)]
    if unset := [each.name for each in contract.variables if not _is_set(each)]:
        known.append(("not set", ", ".join(unset), ""))
    print_pairs(console, known)
    table = make_table("line", "evidence", "verdict", "symbol", folding=("symbol",))
    # The variables are printed above, with their values.
    for each in (finding for finding in contract.findings if finding.kind != "environment"):
        symbol = f"{each.name}{each.signature}" + (f": {each.found}" if each.found else "")
        add_row(table, _style(each.verdict), str(each.line), each.evidence, each.verdict, symbol)
    if table.rows:
        console.print()
        console.print(table)


def _is_set(variable: VendorVariable) -> bool:
    return variable.value is not None or variable.written is not None


def _value(variable: VendorVariable) -> str:
    value = "not set" if variable.value is None else repr(variable.value)
    return value if variable.written is None else f"{value}; set to {variable.written!r} by the backend or its software"


def _show_trainings(console: Terminal, name: str, trainings: Sequence[SelfTest]) -> None:
    if not trainings:
        _title(console, f"{name}: not trained, as it is not ready")
        return
    simulated = " on a SIMULATED chip: this says nothing about a real one" if trainings[0].simulated else ""
    _title(console, f"{name}: self-test through {trainings[0].through or 'nothing'}{simulated}")
    table = make_table("cards", "verdict", "first rank's device", "loss", "seconds")
    for each in trainings:
        verdict = "failed" if each.reason else "passed"
        known = each.first_loss is not None and each.last_loss is not None and each.seconds is not None
        loss, seconds = (f"{each.first_loss:.3g} to {each.last_loss:.2g}", f"{each.seconds:.1f}") if known else ("", "")
        style = _style("wrong" if each.reason else "holds")
        add_row(table, style, str(each.cards), verdict, each.device, loss, seconds)
    console.print()
    console.print(table)


def _show_advice(console: Terminal, diagnosis: Diagnosis) -> None:
    if not diagnosis.advice:
        _title(console, "Nothing is wrong.")
        return
    _title(console, "What is wrong, and what to do, most important first")
    print_pairs(console, [(f"{each.level}: {each.about}", each.what, _style(each.level)) for each in diagnosis.advice])


def _style(verdict: str) -> str:
    return _STYLES.get(verdict, "")
