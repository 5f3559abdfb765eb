"""Report of a run: the figures, and the facts needed to compare them with others."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.child import ROOT
from bench.figure import Figure

REPORT = ROOT / "bench" / "report.json"

_CPUINFO = Path("/proc/cpuinfo")
_VECTORS = ("amx_bf16", "avx512_bf16", "avx512f", "avx2")
"""Words of Linux for what decides how fast torch multiplies, the fastest first."""


@dataclass(frozen=True)
class Surroundings:
    """Where and when something was measured."""

    date: str
    commit: str
    versions: dict[str, str]
    cpu: str
    cores: int
    load: float
    """The load average of the last minute, before the run: above 1, others were at work."""

    @classmethod
    def look(cls) -> Surroundings:
        """Return the surroundings of this process."""
        packages = ("northbridge", "torch", "lightning")
        return cls(
            date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            commit=_commit(),
            versions={"python": platform.python_version(), **{name: version(name) for name in packages}},
            cpu=_cpu(),
            cores=os.cpu_count() or 1,
            load=os.getloadavg()[0],
        )


def as_dict(figures: Sequence[Figure], surroundings: Surroundings, *, quick: bool) -> dict[str, Any]:
    """Return the report as plain values."""
    return {
        "date": surroundings.date,
        "commit": surroundings.commit,
        "quick": quick,
        "versions": surroundings.versions,
        "machine": {"cpu": surroundings.cpu, "cores": surroundings.cores, "load_before": surroundings.load},
        "figures": {figure.row.name: figure.as_dict() for figure in figures},
    }


def write(report: dict[str, Any], file: Path = REPORT) -> None:
    """Write the report, over the last one."""
    file.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")


def _commit() -> str:
    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    commit = git("rev-parse", "HEAD")
    if not commit:
        return "unknown"
    return f"{commit} with changes" if git("status", "--porcelain") else commit


def _cpu() -> str:
    """Return the processor's name, and the most that it does at once: machines of one name differ in that."""
    try:
        lines = _CPUINFO.read_text().splitlines()
    except FileNotFoundError:  # not Linux
        return platform.processor()
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    has = facts.get("flags", "").split()
    widest = next((f" ({name})" for name in _VECTORS if name in has), "")
    return f"{facts.get('model name', platform.machine())}{widest}"
