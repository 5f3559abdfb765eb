"""Compare a backend's contract with a wheel of the vendor's: ``python -m tools.contract npu torch-npu==2.14.0``.

The wheel is read as source: nothing of it is installed or run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

import typer
from griffe import Class, Function, Module, Object
from tools.wheel import UnreadableError, Wheel, WheelError, download

from northbridge.contract import Contract, Symbol, contract_of
from northbridge.contract.check import NotThereError
from northbridge.contract.signature import IncomparableError, difference, parse
from northbridge.discovery.declared import get
from northbridge.discovery.installed import describe
from northbridge.errors import NorthbridgeError
from northbridge.untrusted.text import clean, shorten

app = typer.Typer(add_completion=False)

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


def compare(contract: Contract, wheel: Wheel) -> tuple[Compared, ...]:
    """Compare each line with the wheel, in the order of the file; nothing of the wheel is run."""
    compared = []
    for symbol in contract.symbols:
        verdict, found = _judge(symbol, wheel)
        required = symbol.required and symbol.kind not in ("environment", "behaviour", "absent")
        compared.append(Compared(contract.lines[symbol.name], symbol.name, symbol.kind, required, verdict, found))
    return tuple(compared)


def _judge(symbol: Symbol, wheel: Wheel) -> tuple[Verdict, str]:
    if symbol.kind == "behaviour":
        return "not readable", "a behaviour: it shows when it runs"
    try:
        if symbol.kind == "environment":
            file = next(wheel.naming(symbol.name), None)
            return ("absent", "no file names it") if file is None else ("holds", file)
        found = wheel.look_up(symbol.name)
    except NotThereError as error:
        return ("holds", "") if symbol.kind == "absent" else ("absent", str(error))
    except UnreadableError as error:
        return "not readable", str(error)
    except RecursionError:
        return "not readable", "it leads back to itself"
    place = wheel.place(found)
    if symbol.kind == "absent":
        return "differs", f"it is there: {place}"
    try:
        reason = _difference(symbol, found, wheel)
    except (UnreadableError, IncomparableError) as error:
        return "not readable", f"{place}: {error}"
    except (RecursionError, ValueError):  # the latter: a name twice among the parameters
        return "not readable", f"{place}: it has no signature that can be read"
    return ("differs", f"{place}: {reason}") if reason else ("holds", place)


def _difference(symbol: Symbol, found: Object, wheel: Wheel) -> str:
    if symbol.kind == "attribute":
        return ""
    if (symbol.kind == "module") != isinstance(found, Module):
        return "it is not a module" if symbol.kind == "module" else "it is a module"
    if symbol.kind == "module":
        return ""
    if not isinstance(found, Class | Function):
        raise UnreadableError("it is made at run time")
    if symbol.kind == "class" and not isinstance(found, Class):
        return "it is not a class"
    if not symbol.signature:
        return ""
    signature = wheel.signature(found)
    reason = difference(parse(symbol.signature), signature)
    return f"{reason}: {signature}" if reason else ""


_VERDICTS: tuple[Verdict, ...] = ("holds", "differs", "absent", "not readable")


@dataclass(frozen=True)
class WheelReport:
    """Each line of a backend's contract, and what the source in one wheel says of it."""

    backend: str
    contract: str
    wheel: str
    asked: str
    lines: tuple[Compared, ...]

    @property
    def exit_code(self) -> int:
        """1 if a run on this release would be refused, or if no name could be read; else 0."""
        names = [each.verdict for each in self.lines if each.kind in ("class", "function", "method", "attribute")]
        unread = bool(names) and set(names) == {"not readable"}
        return int(unread or any(each.is_broken for each in self.lines))

    def page(self) -> Iterator[str]:
        """Yield the lines of a page in Markdown."""
        count = Counter[str](each.verdict for each in self.lines)
        yield f"# The contract of {self.backend} and {shorten(self.wheel)}"
        yield ""
        yield f"    python -m tools.contract {self.backend} {shorten(self.asked)}"
        yield ""
        yield f"{len(self.lines)} lines of {self.contract}: " + ", ".join(
            f"{count[verdict]} {verdict}" for verdict in _VERDICTS
        )
        yield ""
        yield (
            "The wheel was read as source: nothing of it was installed or run. *Not readable* is what shows at run time"
            " alone."
        )
        yield ""
        yield "| line | symbol | kind | required | verdict | where, or why |"
        yield "|---|---|---|---|---|---|"
        for each in self.lines:
            required = "yes" if each.required else "no"
            cells = (str(each.line), f"`{each.name}`", each.kind, required, each.verdict, each.found)
            yield "| " + " | ".join(shorten(cell).replace("|", "\\|") for cell in cells) + " |"


def compare_with_wheel(name: str, asked: str) -> WheelReport:
    """Compare the contract of backend ``name`` with the wheel ``asked``: a file, or what pip is to download.

    Raises :class:`WheelError`, and the errors of a plugin that cannot be declared.
    """
    backend = get(name)
    contract = contract_of(backend, who=describe(name))
    if contract is None:
        raise WheelError(f"{describe(name)} has no contract.toml: there is nothing to compare")
    with TemporaryDirectory() as downloaded, TemporaryDirectory() as unpacked:
        given = Path(asked)
        file = given if given.suffix == ".whl" else download(asked, Path(downloaded))
        wheel = Wheel(file, Path(unpacked), backend.device.type)
        if not any(map(wheel.has_package, contract.packages)):
            names = " or ".join(contract.distributions or contract.packages)
            raise WheelError(f"{wheel.name} has no {' or '.join(contract.packages)}. Fix: give a wheel of {names}")
        lines = compare(contract, wheel)
    return WheelReport(name, contract.path.name, file.name, asked, lines)


@app.command()
def main(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The backend.")],
    wheel: Annotated[
        str,
        typer.Argument(metavar="WHEEL", help="A file, or a requirement that pip downloads, such as torch-acme==2.1."),
    ],
) -> None:
    """Compare the contract of NAME with WHEEL; the exit code is 1 if a line that the backend needs is wrong."""
    try:
        compared = compare_with_wheel(name, wheel)
    except (WheelError, NorthbridgeError) as error:
        raise typer.BadParameter(clean(str(error))) from None
    print("\n".join(compared.page()))
    raise typer.Exit(compared.exit_code)


if __name__ == "__main__":
    app()
