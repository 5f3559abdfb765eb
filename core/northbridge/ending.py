"""How a process ended, in words."""

from __future__ import annotations

import signal


def describe_exit(code: int) -> str:
    """Return "was killed by SIGSEGV" or "ended with exit code 3", from what ``Popen.returncode`` says."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:  # most real-time signals have no name
        return f"was killed by signal {-code}"
