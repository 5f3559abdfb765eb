"""Check of each line of a contract against the software that this process has loaded."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

from northbridge.contract.document import Contract
from northbridge.contract.lookup import NotThereError, look_up
from northbridge.contract.signature import IncomparableError, difference, is_kind_of, parse, signature_of
from northbridge.contract.symbol import Symbol
from northbridge.processes.endings import describe_error

LineVerdict = Literal["holds", "wrong", "note", "unchecked"]


@dataclass(frozen=True)
class Finding:
    """One line of the contract, and the result of its check."""

    name: str
    kind: str
    signature: str
    meaning: str
    line: int
    evidence: str
    source: str
    since: str
    required: bool
    verdict: LineVerdict
    found: str


def check(contract: Contract, *, acquire: bool = False) -> tuple[Finding, ...]:
    """Check each line, in the order of the file.

    Imports the vendor's modules that are not imported yet. Calls only functions whose line says ``try = true``. Calls
    nothing that acquires a card, unless ``acquire`` is true.
    """
    return tuple(check_line(contract, symbol, acquire=acquire) for symbol in contract.symbols)


def check_line(contract: Contract, symbol: Symbol, *, acquire: bool = False) -> Finding:
    """Check one line of the contract."""
    verdict, found = _judge(symbol, acquire)
    return Finding(
        name=symbol.name,
        kind=symbol.kind,
        signature=symbol.signature,
        meaning=symbol.meaning,
        line=contract.lines[symbol.name],
        evidence=symbol.evidence,
        source=symbol.source,
        since=symbol.since,
        required=symbol.required,
        verdict=verdict,
        found=found,
    )


def _judge(symbol: Symbol, acquire: bool) -> tuple[LineVerdict, str]:
    if symbol.kind in ("environment", "behaviour"):
        return "unchecked", f"{'a variable' if symbol.kind == 'environment' else 'a behaviour'}, no symbol to look up"
    if symbol.acquires and symbol.kind == "attribute" and not acquire:
        return "unchecked", "to read it would take a card; --acquire does"
    try:
        value = look_up(symbol.name, importing=True)
    except NotThereError as error:
        if symbol.kind == "absent":
            return "holds", ""
        return ("wrong", str(error)) if symbol.required else ("note", f"{error}, which the contract allows")
    if symbol.kind == "absent":
        return "note", f"it is there after all, a {type(value).__name__}"
    try:
        reason = disagreement(symbol, value)
    except IncomparableError as error:
        return "unchecked", f"it is there; {error}"
    if reason:
        return "wrong", reason
    if not symbol.tried:
        return "holds", ""
    if symbol.acquires and not acquire:
        return "holds", "it was not called, which would take a card; --acquire does"
    return _try(symbol, value)


def disagreement(symbol: Symbol, value: object) -> str:
    """Return the difference between ``value``, found under the symbol's name, and the contract; empty if it agrees.

    Calls nothing. Raises :class:`IncomparableError` if the signature of ``value`` is unknown.
    """
    if symbol.kind == "module":
        return "" if isinstance(value, ModuleType) else f"it is not a module, but a {type(value).__name__}"
    if symbol.kind == "class" and not isinstance(value, type):
        return f"it is not a class, but a {type(value).__name__}"
    if symbol.kind in ("function", "method") and not callable(value):
        return f"it cannot be called, being a {type(value).__name__}"
    if not symbol.signature:
        return ""
    said, found = parse(symbol.signature), signature_of(value)
    if symbol.kind == "method" and "self" in found.parameters and "self" not in said.parameters:
        found = found.replace(parameters=[each for each in found.parameters.values() if each.name != "self"])
    reason = difference(said, found)
    return f"{reason}: {found}" if reason else ""


def _try(symbol: Symbol, function: Any) -> tuple[LineVerdict, str]:
    returns = str(parse(symbol.signature).return_annotation)
    try:
        result = function()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a vendor's function
        return "wrong", f"called, it raised {describe_error(error)}"
    shown = f"{result!r:.80}"
    if not is_kind_of(result, returns):
        return "wrong", f"called, it returned {shown}, a {type(result).__name__}"
    return "holds", f"called, it returned {shown}"
