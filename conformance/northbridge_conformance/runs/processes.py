"""Start a process of a run, as a user would."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from northbridge.processes.child import Process as Process

Start = Callable[[list[str], Mapping[str, str], Path, IO[bytes]], Process]


def start_afresh(
    command: list[str], environ: Mapping[str, str], folder: Path, output: IO[bytes], stdin: IO[bytes] | None = None
) -> Process:
    """Start Python with the arguments ``command`` in its own session, in ``folder``; it reads ``stdin``, if any."""
    return subprocess.Popen(
        [sys.executable, *command],
        env=environ,
        stdin=stdin or subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        cwd=folder,
        start_new_session=True,
    )


_starts: list[Start] = [start_afresh]


def start(command: list[str], environ: Mapping[str, str], folder: Path, output: IO[bytes]) -> Process:
    """Start a process as :func:`start_afresh` does, or with the function given to :func:`start_by`."""
    return _starts[-1](command, environ, folder, output)


def start_by(other: Start) -> None:
    """Let ``other`` start this process's children from now on; Northbridge's own tests save time with it."""
    _starts.append(other)
