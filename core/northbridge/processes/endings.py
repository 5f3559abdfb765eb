"""How a process or a call ended, in words; how a process is ended; and what has become of one."""

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
    """Return "was killed by SIGSEGV" or "ended with exit code 3", from what ``Popen.returncode`` says."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:  # most real-time signals have no name
        return f"was killed by signal {-code}"


def describe_error(error: BaseException) -> str:
    """Return one line about what a vendor's code raised."""
    try:
        # Our own errors quote little, and their end says what to do.
        text = " ".join(str(error).split()) if isinstance(error, NorthbridgeError) else shorten(str(error))
    except Exception as second:  # noqa: BLE001 - a vendor's __str__
        text = f"(its text cannot be read: {type(second).__name__})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def last_words(said: bytes) -> str:
    """Return the last line of what a process printed; empty where it printed nothing."""
    lines = said.decode(errors="replace").strip().splitlines()
    return shorten(lines[-1]) if lines else ""


def kill_session(process: int) -> None:
    """Kill the process that leads a session of its own, and everything that it has started there."""
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process, signal.SIGKILL)
        else:
            os.kill(process, signal.SIGTERM)  # Windows has no sessions, and ends the process by any signal


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
