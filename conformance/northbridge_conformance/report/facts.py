"""Facts of a report about the suite, a backend and a machine.

A separate process collects the backend's facts, as it may crash, hang or print. If it gives no answer, the report has
only the metadata's few facts and no claims.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from northbridge import capabilities
from northbridge.capabilities import Capabilities, Claim
from northbridge.diagnostics.environment import describe_system, tell_value
from northbridge.discovery import installed
from northbridge.discovery.declared import get
from northbridge.discovery.simulated import simulation_of
from northbridge_conformance.report.report import BackendFacts, MachineFacts
from northbridge_conformance.runs.question import ask_again
from northbridge_conformance.runs.run_errors import HungError

_SUITE = Path(__file__).parents[1]

_LIMIT_S = 900.0
"""The limit for loading: some software is compiled on first use."""


@dataclass(frozen=True)
class Facts:
    """Facts about a backend, its claims and its software."""

    backend: BackendFacts
    capabilities: Capabilities = field(default_factory=Capabilities)
    """The chip's claims, corrected by the cards of this machine."""

    versions: Mapping[str, str] = field(default_factory=dict)
    variables: tuple[str, ...] = ()
    """The vendor's variables that its contract lists."""

    def environ_of_suite(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return ``environ`` for the suite's processes; a simulated chip gets its strict options."""
        strict = strict_options(self.backend.name) if self.backend.simulated else {}
        return {**strict, **environ}

    def list_options_off(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Return the strict options of a simulated chip that the user's ``environ`` turns off.

        A chip whose simulation and bridge have no strict options gets one line that says so.
        """
        if not self.backend.simulated:
            return ()
        strict = strict_options(self.backend.name)
        if not strict:
            return ("it has no strict options: give its Simulation some",)
        return tuple(
            f"{name}={environ[name]}, and not {value}: unset it"
            for name, value in strict.items()
            if environ.get(name, value) != value
        )

    def describe_machine(self, environ: Mapping[str, str]) -> MachineFacts:
        """Return the facts about this machine, with the variables of ``environ`` that affect a run.

        Values are shown only for the vendor's variables, a simulated chip's strict options, and those the core shows.
        """
        beginnings = ("NORTHBRIDGE_", "TORCH", "OMP_NUM_THREADS")
        also = (*self.variables, *(strict_options(self.backend.name) if self.backend.simulated else ()))
        told = {
            name: tell_value(name, value, also)
            for name, value in sorted(environ.items())
            if name.startswith(beginnings) or name in self.variables
        }
        return MachineFacts(
            system=describe_system(),
            processor=_processor(),
            cores=len(os.sched_getaffinity(0)),
            memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            environment=told,
        )


def find_facts(name: str, environ: Mapping[str, str] = os.environ) -> Facts:
    """Return the facts about backend ``name``; raises the errors of ``discovery.installed.find``."""
    plugin = installed.find(name)
    origin: dict[str, Any] = {"name": name, "distribution": plugin.distribution, "version": plugin.version}
    try:
        found: dict[str, Any] = ask_again("description", name, environ=environ, limit_s=_LIMIT_S).facts
    except (AssertionError, HungError) as error:
        return Facts(BackendFacts(**origin, problem=str(error)))
    claims: dict[str, Any] = {
        name: Claim(**value) if isinstance(value, dict) else value for name, value in found["capabilities"].items()
    }
    return Facts(
        BackendFacts(**origin, **found["backend"]),
        Capabilities(**claims),
        found["versions"],
        tuple(found["variables"]),
    )


def _processor() -> str:
    with open("/proc/cpuinfo") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def strict_options(name: str) -> Mapping[str, str]:
    """Return the strict options of the simulated chip of backend ``name``.

    They come from its bridge and its simulation. Raises the errors of :func:`northbridge.get`.
    """
    simulation = simulation_of(name)
    return {**get(name).bridge.strict_options, **(simulation.strict_options if simulation else {})}


@cache
def digest_sources() -> str:
    """Return a digest of every file of the suite and of the claims that its levels need; computed once a process."""
    total = hashlib.sha256()
    claims = Path(capabilities.__file__)
    for path in (*sorted(_SUITE.rglob("*.py")), claims):
        total.update(f"{path.relative_to((claims if path == claims else _SUITE).parent).as_posix()}\n".encode())
        total.update(path.read_bytes())
    return total.hexdigest()
