"""Check of each line of a contract against a vendor's wheel, read as source."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from northbridge.contract.document import Contract
from northbridge.contract.lookup import NotThereError
from northbridge.contract.signature import IncomparableError, difference, parse
from northbridge.contract.source import FUNCTION, Source, Thing
from northbridge.contract.symbol import Symbol
from northbridge.contract.wheel import UnreadableError, Wheel

Verdict = Literal["holds", "differs", "absent", "not readable"]


@dataclass(frozen=True)
class Compared:
    """One line of the contract, and what the wheel's source says of it."""

    line: int
    name: str
    kind: str
    required: bool
    verdict: Verdict
    found: str
    """Where it is, or what is wrong, or why source alone cannot tell."""

    @property
    def is_broken(self) -> bool:
        """True if a run on this release would be refused."""
        return self.required and self.verdict in ("differs", "absent")


def compare(contract: Contract, wheel: Wheel, device_type: str) -> tuple[Compared, ...]:
    """Compare each line with the wheel, in the order of the file; nothing of the wheel is run.

    Raises :class:`WheelError` if a file of the wheel cannot be read, for then no line can be trusted.
    """
    source = Source(wheel, device_type)
    compared = []
    for symbol in contract.symbols:
        verdict, found = _judge(symbol, source)
        required = symbol.required and symbol.kind not in ("environment", "behaviour", "absent")
        compared.append(Compared(contract.lines[symbol.name], symbol.name, symbol.kind, required, verdict, found))
    return tuple(compared)


def _judge(symbol: Symbol, source: Source) -> tuple[Verdict, str]:
    if symbol.kind == "behaviour":
        return "not readable", "a behaviour: it shows when it runs"
    try:
        if symbol.kind == "environment":
            file = next(source.wheel.naming(symbol.name), None)
            return ("absent", "no file names it") if file is None else ("holds", file)
        thing = source.look_up(symbol.name)
    except NotThereError as error:
        return ("holds", "") if symbol.kind == "absent" else ("absent", str(error))
    except UnreadableError as error:
        return "not readable", str(error)
    except RecursionError:
        return "not readable", "its source is nested too deeply"
    if symbol.kind == "absent":
        return "differs", f"it is there: {source.place(thing)}"
    try:
        reason = _difference(symbol, thing, source)
    except (UnreadableError, IncomparableError) as error:
        return "not readable", f"{source.place(thing)}: {error}"
    except (RecursionError, ValueError):  # the latter: a name twice among the parameters
        return "not readable", f"{source.place(thing)}: it has no signature that can be read"
    return ("differs", f"{source.place(thing)}: {reason}") if reason else ("holds", source.place(thing))


def _difference(symbol: Symbol, thing: Thing, source: Source) -> str:
    node = thing.node
    if symbol.kind == "attribute":
        return ""
    if symbol.kind == "module":
        return "" if node is None else "it is not a module"
    if node is None:
        return "it is a module"
    if not isinstance(node, (ast.ClassDef, *FUNCTION)):
        raise UnreadableError("it is made at run time")
    if symbol.kind == "class" and not isinstance(node, ast.ClassDef):
        return "it is not a class"
    if not symbol.signature:
        return ""
    found = source.signature(thing)
    reason = difference(parse(symbol.signature), found)
    return f"{reason}: {found}" if reason else ""
