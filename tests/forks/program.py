"""The program that a forked process runs, and its environment as Linux shows it in ``/proc``.

Linux reads what a process began with, which a fork has from its parent, from the process's own memory, between two
addresses. A fork writes its program's variables there, so that it is found with what a started process has.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"

ROOM = {"PYTEST_NORTHBRIDGE_ROOM": "." * 2**16}
"""A variable for the process that forks: so many bytes more may its forks' variables have than its own."""

_ENV_START, _ENV_END = 50 - 3, 51 - 3  # of proc_pid_stat(5), counted from the field after the name, the third


@dataclass(frozen=True)
class Program:
    """Return the program of ``python command`` with only these variables, started in ``folder``."""

    command: tuple[str, ...]
    """``-m``, a module and its arguments; or a script's absolute path and its arguments."""

    environ: dict[str, str]
    folder: Path
    starts_ranks: bool = False
    """True if Lightning may start ranks as scripts in it; these are then forks too."""

    @property
    def name(self) -> str:
        """The module's name, or the script's path."""
        return self.command[1] if self.command[0] == "-m" else self.command[0]


def show(environ: Mapping[str, str]) -> None:
    """Let Linux show ``environ`` for this process; call it when nothing of C's points to the first variables."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    block = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environ.items())
    if len(block) > end - start:
        sys.exit(f"the fork's variables have {len(block)} bytes, and there is room for {end - start}: make ROOM larger")
    ctypes.memmove(start, block.ljust(end - start, b"\0"), end - start)
