"""Which process wrote a record, and what has become of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

State = Literal["running", "stopped", "gone", "unknown"]


def this_machine() -> str:
    """Return what tells this system, since its last start, from others; empty where the system does not say."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def started_at(process: int) -> int | None:
    """Return when ``process`` began, in ticks since the system's start: the next one with its number differs."""
    fields = _fields(process)
    return int(fields[19]) if fields else None


def state_of(process: int, ticks: int | None, machine: str) -> State:
    """Return what has become of the process that began at ``ticks`` on ``machine``."""
    if not machine or machine != this_machine() or ticks is None:
        return "unknown"
    fields = _fields(process)
    if not fields or int(fields[19]) != ticks or fields[0] in "ZX":
        return "gone"
    return "stopped" if fields[0] in "Tt" else "running"


def _fields(process: int) -> list[str]:
    # Behind the command's name, which may hold anything: the state is the first field.
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
