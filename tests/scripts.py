"""A user's script, run as users run it, or as its fork."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.forks.processes import fork

from northbridge_conformance.runs.processes import ONE_THREAD, Process

LIMIT = 240.0
"""The time limit of a script in seconds: pytest's limit, less the time for ending the ranks."""


@dataclass(frozen=True)
class Ran:
    """The end of a script, and the output of its processes on stdout and stderr."""

    status: int
    said: str


def run_script(
    script: Path, *arguments: str, folder: Path, environ: Mapping[str, str] | None = None, limit: float = LIMIT
) -> Ran:
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
    return wait(process, script, printed, limit)


def run_forked(script: Path, *arguments: str, folder: Path, environ: Mapping[str, str] | None = None) -> Ran:
    """Do what :func:`run_script` does in forks of a process that has imported Lightning, its ranks too.

    That is most of what a short script costs, and for tests that are about neither the start of a process nor the
    order of its imports. As many variables as differ from those of the last such script, but for a launcher's and our
    own, as often is Lightning imported. Operations take one thread.
    """
    printed = folder / "printed.txt"
    with printed.open("wb") as out:
        process = fork_script(script, *arguments, folder=folder, output=out, environ=environ)
    return wait(process, script, printed)


def fork_script(
    script: Path,
    *arguments: str,
    folder: Path,
    output: IO[bytes],
    stdin: IO[bytes] | None = None,
    environ: Mapping[str, str] | None = None,
    late: Collection[str] = (),
    imported: tuple[str, ...] = ("lightning",),
) -> Process:
    """Begin what :func:`run_forked` runs, in a session of its own; it reads ``stdin`` and prints to ``output``.

    ``late`` are variables of ``environ`` that nothing reads before the script imports something of a vendor's, and
    ``imported`` what it may find imported beside torch.
    """
    given = {**(os.environ if environ is None else environ), **ONE_THREAD}
    after = {name: value for name, value in given.items() if name in late}
    before = {name: value for name, value in given.items() if name not in after}
    command = [str(script), *arguments]
    return fork(command, before, folder, output, after, imported, starts_ranks=bool(imported), stdin=stdin)


def run_command(
    *command: str, folder: Path | None = None, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in ``folder``; return how it ended, and what it printed to stdout and to stderr."""
    return subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, timeout=LIMIT, check=False)


def run_python(
    *arguments: str, folder: Path | None = None, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Do the same with Python."""
    return run_command(sys.executable, *arguments, folder=folder, environ=environ)


def start_python(
    *arguments: str,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    stdin: int | None = None,
    stderr: int | None = subprocess.PIPE,
) -> subprocess.Popen[str]:
    """Start Python in ``folder``, with a pipe for what it prints to stdout."""
    command, pipe = [sys.executable, *arguments], subprocess.PIPE
    return subprocess.Popen(command, env=environ, cwd=folder, stdin=stdin, stdout=pipe, stderr=stderr, text=True)


def wait(process: Process, script: Path, printed: Path, limit: float = LIMIT) -> Ran:
    """Wait for the end of ``script``, and end whatever it started with it."""
    try:
        status = process.wait(limit)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{script} did not end within {limit:g} s:\n{printed.read_text()}") from None
    finally:
        # The whole group: where the first rank hangs, the others outlive it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return Ran(status, printed.read_text())


def is_alive(pid: int) -> bool:
    """Return True if the process ``pid`` runs; a zombie does not count."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
