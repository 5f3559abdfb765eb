"""Examination of one backend in a child process, which may crash or hang: the questions and the findings."""

from __future__ import annotations

import json
import operator
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from northbridge.contract import Contract, broken_defaults, check_line, contract_of, version_of
from northbridge.device import describe_device_type
from northbridge.diagnostics import torch_import
from northbridge.diagnostics.backends import FINDING, BackendReport, Claimed, VendorVariable, report_on
from northbridge.discovery.cards import counted_cards
from northbridge.discovery.current import loaded
from northbridge.discovery.declared import get
from northbridge.discovery.installed import describe
from northbridge.discovery.loaded import load, reject_missing_software
from northbridge.discovery.present import detect
from northbridge.errors import DeviceTypeTakenError, NorthbridgeError, SoftwareMissingError, UnsupportedError
from northbridge.process_record import record
from northbridge.processes.child import Reporter, Stage
from northbridge.processes.endings import describe_error
from northbridge.processes.environment import forget
from northbridge.processes.question import ANSWERS, PATIENCE, longest
from northbridge.settings import CoreSettings

if TYPE_CHECKING:
    from northbridge.backend import Backend
    from northbridge.bridge import Bridge
    from northbridge.processes.child import Queue

T = TypeVar("T")


@dataclass(frozen=True)
class Depth:
    """The extent of a child's examination of its backend."""

    load_seconds: float
    everything: bool = False
    """True if it also examines the machine, the environment and the contract."""
    acquire: bool = False

    @property
    def stages(self) -> dict[str, Stage]:
        """The child's stages, with the limits in seconds."""
        limit = longest(CoreSettings.read().detect_timeout)
        compiling = "check the driver, raise --load-timeout if it is compiling"
        return {
            "declare": Stage("importing its plugin", limit, PATIENCE),
            "environment": Stage("checking its environment", limit, PATIENCE),
            "detect": Stage("counting its devices", limit, PATIENCE),
            "torch": torch_import.STAGE,
            "load": Stage("loading its software, which may be compiled first", self.load_seconds, compiling),
            "machine": Stage("describing its machine", limit, PATIENCE),
            # The first touch may wait until the driver has set up the card.
            "acquire": Stage("taking its first device", limit + 60.0, PATIENCE),
            # The limit of one line; the first that takes a card may wait until the driver has set it up.
            "contract": Stage("checking its contract", limit + 60.0 * self.acquire, PATIENCE),
        }


def ask(queue: Queue, claim: Claimed, depth: Depth) -> tuple[BackendReport, str]:
    """Let a child examine one backend; return its report, and the reason if it could not import torch."""
    if claim.verdict is not None:
        return report_on(claim), ""
    reply = queue.ask(claim.name, question(claim.name, depth), depth.stages)
    package = reply.facts.get("package")
    if package is not None and not torch_import.is_switched_off():
        # Another child: it imports the package first, to see if the package switches torch's autoload off.
        first = queue.ask(claim.name, torch_import.question(package), {"package": depth.stages["load"]})
        reply = replace(reply, facts={**reply.facts, **first.facts})
    return report_on(claim, reply), torch_import.problem_of(reply)


def question(name: str, depth: Depth) -> str:
    """Return the code that a backend's child runs."""
    return f"from {__name__} import answer; answer({name!r}, everything={depth.everything}, acquire={depth.acquire})"


def answer(name: str, *, everything: bool, acquire: bool) -> None:
    """Examine one backend in this process, the child, as a run that names it would load it."""
    report, environ = Reporter(), dict(os.environ)
    report.begin("declare")
    # Another process of this tree may have asked before, and its answer may be out of date.
    forget(ANSWERS)
    try:
        backend = get(name)
    except NorthbridgeError as error:
        report.end(**_problem(error))
    if everything:
        report.begin("environment")
        _, problem = _tried("its check_environment()", backend.bridge.check_environment)
        report.begin("detect", environment_problem=problem)
    states = _states(backend, report)
    if not everything:
        report.end(**states, record=_recorded())
    report.begin("machine", **states)
    machine, problem = _tried("its describe_machine()", lambda: _described(backend.bridge))
    is_loaded = loaded() is backend  # if not, the failure to load is reported already
    device_type = describe_device_type(backend.device.type) if is_loaded else ""
    report.begin("contract", machine=machine or {}, machine_problem=problem, device_type=device_type)
    if is_loaded:
        found, problem = _tried("the check of its Device's defaults", lambda: broken_defaults(backend))
        report.begin("contract", device_problems=[problem] if found is None else found)
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
    report.end(record=_recorded(), unfinished="")


def _recorded() -> list[dict[str, str]]:
    return [entry.as_dict() for entry in record()]


def _states(backend: Backend, report: Reporter) -> dict[str, object]:
    """Go through the stages of one backend in this process; return the findings of the last."""
    capabilities = backend.capabilities
    try:
        report.begin("detect", simulated=capabilities.simulated)
        devices = operator.index(detect(backend))
        report.begin("detect", devices=devices)
        if _tried("its missing()", backend.bridge.missing)[0] is not None:
            reject_missing_software(backend)  # before torch, whose import takes seconds
        torch_import.import_torch(report)
        report.begin("load")
        load(backend)
        report.begin("load", cards=counted_cards(backend, range(devices), total=devices))
    except NorthbridgeError as error:
        return _problem(error)
    alone = backend.collective is None
    return {"loadable": True, "alone": alone, "package": None if capabilities.simulated else backend.bridge.package}


def _problem(error: NorthbridgeError) -> dict[str, object]:
    return {
        "loadable": False,
        "error": str(error),
        "missing": isinstance(error, SoftwareMissingError),
        "timed_out": error.timed_out,
        "taken": isinstance(error, DeviceTypeTakenError),
        "unsupported": isinstance(error, UnsupportedError),
    }


def _tried(what: str, step: Callable[[], T]) -> tuple[T | None, str]:
    """Run ``step``; return its result, and a message about its error, or an empty one."""
    try:
        return step(), ""
    except NorthbridgeError as error:
        return None, str(error)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - reported
        return None, f"{what} raised {describe_error(error)}. Fix: upgrade the plugin"


def _acquire(backend: Backend) -> None:
    """Acquire the first device, as a run on one device would."""
    backend.bridge.prepare_rank(index=0, local_rank=0, world_size=1)
    backend.device.select(0)


def _described(bridge: Bridge) -> dict[str, object]:
    described: dict[str, object] = json.loads(json.dumps(bridge.describe_machine(), default=_in_words))
    return described


def _in_words(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _check_contract(contract: Contract, report: Reporter, environ: dict[str, str], *, acquire: bool) -> None:
    # A load that failed late, perhaps at a wrong line, leaves software here that can be checked.
    checked = any(package in sys.modules for package in contract.packages)
    about = {
        "path": str(contract.path),
        "vendor": contract.vendor,
        "distributions": {name: version_of(name) for name in contract.distributions},
        "lines": len(contract.symbols),
        "inferred": sum(symbol.evidence == "inferred" for symbol in contract.symbols),
        "checked": checked,
    }
    variables = [
        asdict(VendorVariable(symbol.name, value, now if now != value else None, symbol.meaning, symbol.evidence))
        for symbol in contract.symbols
        if symbol.kind == "environment"
        for value, now in [(environ.get(symbol.name), os.environ.get(symbol.name))]
    ]
    report.begin("contract", contract=about, variables=variables)
    for symbol in contract.symbols if checked else ():
        report.begin("contract", unfinished=symbol.name)
        finding = check_line(contract, symbol, acquire=acquire)
        report.begin("contract", **{f"{FINDING}{finding.line}": asdict(finding)})
