"""How a process or a call ended, in words; and how a process is ended."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from northbridge.errors import NorthbridgeError
from northbridge.untrusted.text import shorten


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


def kill_session(process: int) -> None:
    """Kill the process that leads a session of its own, and everything that it has started there."""
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process, signal.SIGKILL)
        else:
            os.kill(process, signal.SIGTERM)  # Windows has no sessions, and ends the process by any signal
