"""Check of a contract against the software that this process has loaded, for the doctor and before a run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import distributions
from importlib.util import find_spec
from types import MappingProxyType, ModuleType
from typing import Any, Literal

from northbridge.backend import Backend
from northbridge.capabilities import Capabilities
from northbridge.contract.document import Contract, Symbol
from northbridge.contract.signature import IncomparableError, difference, is_kind_of, parse, signature_of
from northbridge.device import Device, is_renamed
from northbridge.errors import ContractError
from northbridge.processes.endings import describe_error


class NotThereError(LookupError):
    """The software does not have the name; the text says where the search ended."""


class NotLoadedError(LookupError):
    """The module is installed, but has not been imported in this process."""


def look_up(name: str, *, importing: bool) -> object:
    """Return the object called ``name``; calls nothing. ``importing`` allows imports of modules on the way.

    Raises :class:`NotThereError` or :class:`NotLoadedError`.
    """
    path, *parts = name.split(".")
    value: object = _module(path, importing=importing)
    for part in parts:
        value = _member(value, path, part, importing=importing)
        path = f"{path}.{part}"
    return value


def _member(owner: object, path: str, part: str, *, importing: bool) -> object:
    if isinstance(owner, ModuleType):
        # Bypasses the module's own __getattribute__ and __getattr__, which may do more than look.
        members = object.__getattribute__(owner, "__dict__")
        if part in members:
            return members[part]
    try:
        return getattr(owner, part)
    except AttributeError:
        pass
    except Exception as error:
        raise NotThereError(f"reading {path}.{part} raised {describe_error(error)}") from error
    if not hasattr(owner, "__path__"):
        raise NotThereError(f"{path} has no {part!r}")
    # By the package's own name: torch.acme may be the module torch_acme.device.
    return _module(f"{getattr(owner, '__name__', path)}.{part}", importing=importing, missing=f"{path} has no {part!r}")


def _module(name: str, *, importing: bool, missing: str = "") -> object:
    module = sys.modules.get(name)
    if module is not None:
        return module
    if find_spec(name) is None:
        raise NotThereError(missing or f"there is no module {name!r}")
    if not importing:
        raise NotLoadedError(f"{name} has not been imported")
    try:
        return import_module(name)
    except (Exception, SystemExit) as error:
        raise NotThereError(f"import {name} raised {describe_error(error)}") from error


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
    about = symbol.model_dump(exclude={"acquires", "untouched", "tried"})
    return Finding(**about, line=contract.lines[symbol.name], verdict=verdict, found=found)


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


def reject_broken(contract: Contract) -> None:
    """Raise :class:`ContractError` if a required symbol is missing, or cannot be called as the contract says.

    Called by the core after ``Bridge.load()``. Acquires no card: imports nothing, calls nothing, and reads no attribute
    that acquires one. A module that this process has not imported is not checked, but it must be installed.
    """
    wrong = [(symbol, reason) for symbol in contract.symbols if (reason := _reason_against(symbol))]
    if not wrong:
        return
    symbol, reason = wrong[0]
    found = [f"{each} {version_of(each)}" if version_of(each) else f"no {each}" for each in contract.distributions]
    installed = ", ".join(found) or f"no distribution of {contract.vendor}'s"
    line = f"{contract.place(symbol)} ({symbol.evidence}, {symbol.source})"
    more = f", and so are {len(wrong) - 1} more" if len(wrong) > 1 else ""
    fix = f"run `northbridge doctor {contract.backend}`, and {cure(contract.vendor, symbol.since)}"
    raise ContractError(
        f"{contract.who} needs {symbol}, and {reason}; found {installed}. {line} is wrong{more}. Fix: {fix}",
        backend=contract.backend,
    )


def cure(vendor: str, since: str) -> str:
    """Return the fix for a line that is wrong here; ``since`` is the release in which it was read, if known."""
    known = f" ({since} is known to)" if since else ""
    return f"install a release of {vendor}'s software that has it{known}, or tell the backend's author"


def _reason_against(symbol: Symbol) -> str:
    if not symbol.required or symbol.kind in ("environment", "behaviour", "absent"):
        return ""
    if symbol.acquires and symbol.kind == "attribute":
        return ""
    try:
        return disagreement(symbol, look_up(symbol.name, importing=False))
    except NotThereError as error:
        return str(error)
    except (NotLoadedError, IncomparableError):
        return ""


def version_of(distribution: str) -> str | None:
    """Return the version of ``distribution``; None if it is not installed."""
    return next((found.version for found in distributions(name=distribution)), None)


@dataclass(frozen=True)
class ImpliedLine:
    """The function of ``torch.<type>`` that the default of a Device's method calls, and how."""

    function: str
    signature: str
    claims: tuple[str, ...] = ()
    """The claims that it serves; it is not needed if the chip denies them all."""
    renamed: bool = False
    """True if only a renamed device type needs it."""


IMPLIED: Mapping[str, ImpliedLine] = MappingProxyType(
    {
        "count": ImpliedLine("device_count", "() -> int"),
        "select": ImpliedLine("set_device", "(index, /)"),
        "synchronize": ImpliedLine("synchronize", "()"),
        "label": ImpliedLine("get_device_name", "(index, /) -> str"),
        "memory_stats": ImpliedLine("memory_stats", "(index, /) -> dict", ("memory_stats",)),
        "memory_allocated": ImpliedLine("memory_allocated", "(index, /) -> int", ("memory_stats",)),
        "random_state": ImpliedLine("get_rng_state", "() -> Tensor", ("random_numbers",)),
        "set_random_state": ImpliedLine("set_rng_state", "(state, /)", ("random_numbers",)),
        "seed": ImpliedLine("manual_seed_all", "(seed, /)", ("random_numbers",)),
        "autocast_dtypes": ImpliedLine("get_amp_supported_dtype", "() -> list", ("bfloat16", "float16"), renamed=True),
    }
)
"""The line of each method's default. ``empty_cache`` and ``current_index`` need no function of the module."""


def broken_defaults(backend: Backend, claimed: Capabilities | None = None) -> list[str]:
    """Return the problem of each broken default that the Device does not override.

    ``claimed`` are the claims that hold; by default they are the present ones, for which the software must be loaded.
    It acquires no card: it looks functions up, and calls none of them.
    """
    device, claims = backend.device, (claimed or backend.present_capabilities()).claims()
    problems = []
    for method, line in IMPLIED.items():
        is_default = getattr(type(device), method) is getattr(Device, method)
        is_denied = bool(line.claims) and all(claims[name].denied for name in line.claims)
        is_needed = is_default and not is_denied and (is_renamed(device.type) or not line.renamed)
        reason = _reason_against_default(line, device) if is_needed else ""
        if reason:
            deny = f", or deny {' and '.join(line.claims)}" if line.claims else ""
            problems.append(
                f"{type(device).__name__}.{method}() calls torch.{device.type}.{line.function}{line.signature}, and"
                f" {reason}. Fix: override {method}(){deny}"
            )
    return problems


def _reason_against_default(line: ImpliedLine, device: Device) -> str:
    found = getattr(device.module, line.function, None)
    if not callable(found):
        return "it is not there" if found is None else f"it cannot be called, being a {type(found).__name__}"
    try:
        own = signature_of(found)
        reason = difference(parse(line.signature), own)
    except IncomparableError:
        return ""
    return f"{reason}: {own}" if reason else ""
