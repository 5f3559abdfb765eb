"""Check of ``import torch`` in this environment: it may fail, or may not start Northbridge."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from northbridge.autoload import is_armed
from northbridge.discovery.installed import announced
from northbridge.processes.child import Reply, Reporter, Stage
from northbridge.processes.endings import describe_error

GROUP = "torch.backends"
"""The group of the entry points that torch runs at the end of its import."""

SWITCH = "TORCH_DEVICE_BACKEND_AUTOLOAD"
BY_HAND = "write `import northbridge.lightning` at the top of your script"
STAGE = Stage("importing torch", 300.0, "check the disk")


def import_torch(report: Reporter) -> None:
    """Import torch in this process, a child; if that fails, report the reason and end the process."""
    report.begin("torch")
    try:
        import_module("torch")
    except (Exception, SystemExit) as error:  # noqa: BLE001 - reported
        report.end(torch_problem=_explain(error))


def problem_of(reply: Reply) -> str:
    """Return the reason why ``import torch`` failed in the child that replied; empty if it worked."""
    problem = str(reply.facts.get("torch_problem", ""))
    if problem or not reply.ending or reply.stage != "torch":
        return problem
    others = [str(plugin) for plugin in announced(GROUP) if not plugin.module.startswith("northbridge.")]
    runs = f" and runs code of {', '.join(others)}" if others else ""
    fix = f"set {SWITCH}=0 and {BY_HAND}" if others else "reinstall torch"
    return f"the process that imports torch{runs} {reply.ending}, or {fix}"


def _explain(error: BaseException) -> str:
    plugin = _failing_plugin(error)
    if plugin is None:
        return f"`import torch` raised {describe_error(error)}. Fix: reinstall torch"
    cause = describe_error(error.__cause__ or error)
    return f"{plugin} breaks `import torch`: {cause}. Fix: repair or uninstall it, or set {SWITCH}=0 and {BY_HAND}"


def _failing_plugin(error: BaseException) -> str | None:
    """Return the distribution whose entry point raised in torch's function that runs them; None if none of them did."""
    trace = error.__traceback__
    while trace is not None:
        entry = trace.tb_frame.f_locals.get("backend_extension")
        if entry is not None and trace.tb_frame.f_globals.get("__name__") == "torch":
            return next((str(each) for each in announced(GROUP) if each.name == entry.name), repr(entry.name))
        trace = trace.tb_next
    return None


def question(package: str) -> str:
    """Return the code of a child that imports a vendor's ``package`` before torch."""
    return f"from {__name__} import answer; answer({package!r})"


def answer(package: str) -> None:
    """Report whether importing ``package`` first in this process, a child, switches torch's autoload off."""
    report = Reporter()
    report.begin("package")
    try:
        import_module(package)
    except (Exception, SystemExit):  # noqa: BLE001 - the stage that loads it reports the failure
        report.end(switches_off=False)
    report.end(switches_off="torch" in sys.modules and not is_armed())


def is_switched_off() -> bool:
    """Return True if the environment keeps torch from running its entry points."""
    return os.environ.get(SWITCH, "1") != "1"


def tell_of(package: str) -> str:
    """Return the remark for users of a ``package`` that switches torch's autoload off."""
    return f"`import {package}` switches torch's autoload off while it imports torch. Fix: {BY_HAND}"
