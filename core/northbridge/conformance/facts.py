"""What a report says about a backend and a machine, found out by a child process: ``python -m …facts NAME``.

The child may crash, hang or print; the process that asks it makes do with what the metadata says.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import northbridge
from northbridge import discovery
from northbridge.capabilities import Capabilities, Claim
from northbridge.conformance.report import BackendFacts, MachineFacts
from northbridge.contract import contract_of
from northbridge.errors import NorthbridgeError

_LIMIT_S = 900.0
"""How long loading may take: some software is compiled on first use."""

_DISTRIBUTIONS = ("torch", "lightning", "pytorch-lightning", "lightning-fabric", "torchmetrics", "pytest")
_FACTS = "northbridge-facts "


@dataclass(frozen=True)
class Facts:
    """All of it."""

    backend: BackendFacts
    capabilities: Capabilities
    """What the chip claims, corrected by the cards that are here."""

    versions: dict[str, str]
    problem: str
    """Why it was not loaded; empty where it was."""


def find_facts(name: str, environ: Mapping[str, str] = os.environ) -> Facts:
    """Return what there is to know about backend ``name``; raises what :func:`northbridge.discovery.find` raises."""
    plugin = discovery.find(name)
    problem = ""
    try:
        child = subprocess.run(
            [sys.executable, "-m", __name__, name],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
        said = next((line for line in child.stdout.splitlines() if line.startswith(_FACTS)), "")
        found = json.loads(said.removeprefix(_FACTS)) if said else {}
        problem = "" if said else f"its process ended with exit code {child.returncode}: {child.stderr[-2000:]}"
    except subprocess.TimeoutExpired:
        found, problem = {}, f"loading it took longer than {_LIMIT_S:g} s"
    capabilities = found.pop("capabilities", None)
    problem = found.pop("problem", problem)
    versions = found.pop("versions", {})
    facts = {"api": 0, "device": "", "collective": "", "simulated": False, "devices": 0, "label": "", **found}
    return Facts(
        BackendFacts(name=name, distribution=plugin.distribution, version=plugin.version, **facts),
        Capabilities(**{key: _decode(value) for key, value in capabilities.items()})
        if capabilities
        else Capabilities(),
        versions,
        problem,
    )


def describe_machine(environ: Mapping[str, str] = os.environ) -> MachineFacts:
    """Return where this process runs."""
    beginnings = ("NORTHBRIDGE_", "TORCH", "OMP_NUM_THREADS")
    return MachineFacts(
        system=platform.platform(),
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        environment={name: value for name, value in sorted(environ.items()) if name.startswith(beginnings)},
    )


def now() -> str:
    """Return the time, as a report has it."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _processor() -> str:
    with open("/proc/cpuinfo") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _decode(value: Any) -> Any:  # a bool, or a claim's fields
    return Claim(**value) if isinstance(value, dict) else value


def _find(name: str) -> dict[str, object]:
    backend = northbridge.get(name)
    capabilities, problem, devices, label = backend.capabilities, "", 0, ""
    try:
        northbridge.load(name)
        capabilities = backend.present_capabilities()
        devices = backend.device.count()
        label = backend.device.label(0) if devices else ""
    except Exception as error:  # noqa: BLE001 - told in the report
        problem = f"{type(error).__name__}: {error}"
    contract = contract_of(backend)
    distributions = (*_DISTRIBUTIONS, *(contract.distributions if contract is not None else ()))
    return {
        "api": backend.api,
        "device": backend.device.type,
        "collective": backend.collective.name,
        "simulated": capabilities.simulated,
        "devices": devices,
        "label": label,
        "capabilities": asdict(capabilities),
        "versions": {"python": platform.python_version(), **_versions(distributions)},
        "problem": problem,
    }


def _versions(distributions: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for distribution in distributions:
        try:
            found[distribution] = version(distribution)
        except PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    try:
        print("\n" + _FACTS + json.dumps(_find(sys.argv[1])), flush=True)
    except NorthbridgeError as error:
        sys.exit(str(error))
