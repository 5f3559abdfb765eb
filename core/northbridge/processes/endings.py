"""Ends of processes and errors of calls in words, the state of a process, and its killing."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Literal

from northbridge.errors import NorthbridgeError
from northbridge.untrusted.text import shorten

State = Literal["running", "stopped", "gone", "unknown"]


def describe_exit(code: int) -> str:
    """Return "was killed by SIGSEGV" or "ended with exit code 3", from a ``Popen.returncode``."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:  # most real-time signals have no name
        return f"was killed by signal {-code}"


def describe_error(error: BaseException) -> str:
    """Return one line about an error of a vendor's code."""
    try:
        # Our own errors quote little text, and end with the fix.
        text = " ".join(str(error).split()) if isinstance(error, NorthbridgeError) else shorten(str(error))
    except Exception as second:  # noqa: BLE001 - a vendor's __str__
        text = f"(its text cannot be read: {type(second).__name__})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def last_words(said: bytes) -> str:
    """Return the last line of a process's output; empty if it printed nothing."""
    lines = said.decode(errors="replace").strip().splitlines()
    return shorten(lines[-1]) if lines else ""


def kill_session(process: int) -> None:
    """Kill the process that leads its own session, and everything that it has started there."""
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process, signal.SIGKILL)
        else:
            os.kill(process, signal.SIGTERM)  # Windows has no sessions, and any signal ends the process


def this_machine() -> str:
    """Return an identifier of this system since its last start; empty if the system has none."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def started_at(process: int) -> int | None:
    """Return the start of ``process`` in ticks since the system's start: a later process with its number differs."""
    fields = read_stat(process)
    return int(fields[19]) if fields else None


def state_of(process: int, ticks: int | None, machine: str) -> State:
    """Return the state of the process that began at ``ticks`` on ``machine``."""
    if not machine or machine != this_machine() or ticks is None:
        return "unknown"
    fields = read_stat(process)
    if not fields or int(fields[19]) != ticks or fields[0] in "ZX":
        return "gone"
    return "stopped" if fields[0] in "Tt" else "running"


def cpu_seconds(process: int) -> float:
    """Return the CPU time of ``process``, of its session and of their descendants; 0 if the system does not say."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return 0.0
    table = {int(name): fields for name in names if name.isdigit() and (fields := read_stat(int(name)))}
    family, ticks = {process}, 0
    for each, fields in sorted(table.items(), key=lambda item: int(item[1][19])):  # a parent starts before its children
        if each == process or int(fields[3]) == process or int(fields[1]) in family:
            family.add(each)
            ticks += sum(map(int, fields[11:15]))  # those of its ended children too
    return ticks / os.sysconf("SC_CLK_TCK")


def read_stat(process: int) -> list[str]:
    """Return what Linux says of ``process`` behind its command's name, its state first; empty if it is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
