"""The machine's operating system, in one line."""

from __future__ import annotations

import platform


def describe_system() -> str:
    """Return the system, its release, the architecture and the C library.

    :func:`platform.platform` runs ``uname`` by its name to say the same, and finds one in the working directory where
    PATH has an empty entry.
    """
    found = platform.uname()
    libc = "".join(platform.libc_ver())
    return "-".join((found.system, found.release, found.machine)) + (f"-with-{libc}" if libc else "")
