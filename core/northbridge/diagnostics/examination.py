"""What a child process finds out about one backend, and the process that asks it cannot: it may crash, or hang."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, TypeVar

from northbridge.contract import check_line, contract_of
from northbridge.device import describe_device_type
from northbridge.diagnostics import backends
from northbridge.discovery.current import loaded
from northbridge.discovery.declared import get
from northbridge.discovery.installed import describe
from northbridge.errors import NorthbridgeError
from northbridge.process_record import record
from northbridge.processes.child import Reporter, Stage
from northbridge.processes.endings import describe_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from northbridge.backend import Backend
    from northbridge.bridge import Bridge
    from northbridge.contract import Contract

Result = TypeVar("Result")

FINDING = "finding "
"""How the names of the facts about a line of the contract begin; the number of the line follows."""


def stages(*, detect: float, load: float, acquire: bool) -> dict[str, Stage]:
    """Return what a backend's child does, with the limits in seconds."""
    first = backends.stages(detect=detect, load=load)
    patience = first["declare"].patience
    return {
        **first,
        "environment": Stage("checking its environment", detect, patience),
        "machine": Stage("describing its machine", detect, patience),
        # The first touch may wait for the driver to set the card up.
        "acquire": Stage("taking its first device", detect + 60.0, patience),
        # The limit of one line; the first that takes a card may wait for the driver to set it up.
        "contract": Stage("checking its contract", detect + 60.0 * acquire, patience),
    }


def question(name: str, *, acquire: bool) -> str:
    """Return the code that a backend's child runs."""
    return f"from {__name__} import answer; answer({name!r}, acquire={acquire})"


def answer(name: str, *, acquire: bool) -> None:
    """Examine one backend in this process, the child."""
    report, environ = Reporter(), dict(os.environ)
    report.begin("declare")
    try:
        backend = get(name)
    except NorthbridgeError:
        report.end(**backends.bring_up(name, report))  # raises the same, and tells it
    report.begin("environment")
    _, problem = _tried("its check_environment()", backend.bridge.check_environment)
    report.begin("declare", environment_problem=problem)
    report.begin("machine", **backends.bring_up(name, report))
    machine, problem = _tried("its describe_machine()", lambda: _described(backend.bridge))
    is_loaded = loaded() is backend  # else that it does not load is told already
    device_type = describe_device_type(backend.device.type) if is_loaded else ""
    report.begin("contract", machine=machine or {}, machine_problem=problem, device_type=device_type)
    try:
        contract = contract_of(backend, who=describe(backend.name))
    except NorthbridgeError as error:
        report.end(contract_problem=str(error))
    if acquire and is_loaded:
        report.begin("acquire")
        _, problem = _tried("to take its first device", lambda: _acquire(backend))
        report.begin("contract", acquire_problem=problem)
        acquire = not problem
    if contract is not None:
        _check_contract(contract, report, environ, acquire=acquire)
    report.end(record=[entry.as_dict() for entry in record()], unfinished="")


def _tried(what: str, step: Callable[[], Result]) -> tuple[Result | None, str]:
    """Return what ``step`` returns, and what went wrong in it: in words of ours, or what else it raised."""
    try:
        return step(), ""
    except NorthbridgeError as error:
        return None, str(error)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - reported
        return None, f"{what} raised {describe_error(error)}; upgrade the plugin"


def _acquire(backend: Backend) -> None:
    """Take the first device, as a run on one would."""
    backend.bridge.prepare_rank(index=0, local_rank=0, world_size=1)
    backend.device.select(0)


def _described(bridge: Bridge) -> dict[str, object]:
    described: dict[str, object] = json.loads(json.dumps(bridge.describe_machine(), default=_in_words))
    return described


def _in_words(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _check_contract(contract: Contract, report: Reporter, environ: dict[str, str], *, acquire: bool) -> None:
    # A load that failed late, at a line that is wrong perhaps, leaves software here that can be looked at.
    checked = any(package in sys.modules for package in contract.packages)
    about = {
        "path": str(contract.path),
        "vendor": contract.vendor,
        "distributions": {name: _version(name) for name in contract.distributions},
        "lines": len(contract.symbols),
        "inferred": sum(symbol.evidence == "inferred" for symbol in contract.symbols),
        "checked": checked,
    }
    variables = [
        {
            "name": symbol.name,
            "value": value,
            "written": now if now != value else None,
            "meaning": symbol.meaning,
            "evidence": symbol.evidence,
        }
        for symbol in contract.symbols
        if symbol.kind == "environment"
        for value, now in [(environ.get(symbol.name), os.environ.get(symbol.name))]
    ]
    report.begin("contract", contract=about, variables=variables)
    for symbol in contract.symbols if checked else ():
        report.begin("contract", unfinished=symbol.name)
        finding = check_line(contract, symbol, acquire=acquire)
        report.begin("contract", **{f"{FINDING}{finding.line}": asdict(finding)})


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
