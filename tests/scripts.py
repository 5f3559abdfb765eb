"""A user's script, run as users run it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LIMIT = 240.0
"""How many seconds a script may take: pytest's own limit, less what it takes to end the ranks."""


@dataclass(frozen=True)
class Ran:
    """How a script ended, and what its processes printed, to stdout and stderr."""

    status: int
    said: str


def run_script(script: Path, *arguments: str, folder: Path, environ: Mapping[str, str] | None = None) -> Ran:
    """Run ``script`` in ``folder``, and end whatever it started with it."""
    printed = folder / "printed.txt"
    with printed.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, str(script), *arguments],
            env=environ,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        status = process.wait(LIMIT)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{script} did not end within {LIMIT:g} s:\n{printed.read_text()}") from None
    finally:
        # The whole group: where the first rank hangs, the others outlive it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return Ran(status, printed.read_text())
