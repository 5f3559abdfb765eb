"""Check that stops training on software that breaks a backend's contract."""

from __future__ import annotations

from importlib.metadata import distributions

from northbridge.contract.check import disagreement
from northbridge.contract.document import Contract
from northbridge.contract.lookup import NotLoadedError, NotThereError, look_up
from northbridge.contract.signature import IncomparableError
from northbridge.contract.symbol import Symbol
from northbridge.errors import ContractError


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
