"""Start a process of a run, as a user's is started."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import IO

from northbridge.processes.child import Process as Process

CALLED_FIRST = "PYTEST_NORTHBRIDGE_CALLED_FIRST"
"""Names a function, as ``module:function``, that each process of a run calls before anything else.

It returns what it has broken on purpose, in words, which the report repeats; "" where that is nothing. Variables that
begin like this one are that function's own. They are pytest's and none of Northbridge's settings.
"""


Start = Callable[[list[str], Mapping[str, str], Path, IO[bytes]], Process]


def start_afresh(
    command: list[str], environ: Mapping[str, str], folder: Path, output: IO[bytes], stdin: IO[bytes] | None = None
) -> Process:
    """Start Python with the arguments ``command`` in a session of its own in ``folder``; it reads ``stdin``, if any."""
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
    """Do what :func:`start_afresh` does, or what :func:`start_by` was given."""
    return _starts[-1](command, environ, folder, output)


def start_by(other: Start) -> None:
    """Let ``other`` start the processes of this one from now on; Northbridge's own tests save time by it."""
    _starts.append(other)


def call_first(environ: Mapping[str, str] = os.environ) -> str:
    """Call the function that :data:`CALLED_FIRST` names, and return what it says; "" where none is named."""
    module, _, function = environ.get(CALLED_FIRST, "").partition(":")
    return str(getattr(import_module(module), function)()) if module else ""
