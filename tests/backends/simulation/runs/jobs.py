"""Users' scripts in the background: what they say while they run, and how they end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tests.scripts import fork_script

from northbridge_conformance.runs.processes import Process

LIMIT_S = 200.0
"""The limit for one step of a run: less than pytest's limit, and enough for eight ranks on two cores."""


@dataclass
class Job:
    """One script and its ranks, which are one process group."""

    process: Process
    stdin: IO[bytes]
    stdout: IO[bytes]
    printed: bytearray = field(default_factory=bytearray)

    @property
    def said(self) -> str:
        """The output of all processes of the job so far, on stdout and stderr."""
        return self.printed.decode(errors="replace")

    def wait_for(self, text: str, limit_s: float = LIMIT_S) -> None:
        """Return as soon as the job has printed ``text``."""
        deadline = time.monotonic() + limit_s
        while text not in self.said:
            assert self._read(deadline), f"{text!r} was not said:\n{self.said}"

    def press_enter(self) -> None:
        """Let a job go on that waits for it."""
        self.stdin.write(b"\n")

    def end(self, limit_s: float = LIMIT_S) -> int:
        """Return the exit status of the script, once every process of the job has closed its output."""
        deadline = time.monotonic() + limit_s
        while self._read(deadline):
            pass
        try:
            return self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the job did not end within {limit_s:g} s:\n{self.said}") from None

    def kill(self) -> None:
        """End every process of the job."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.stdin.close()
        self.stdout.close()

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self.stdout], [], [], max(0.0, deadline - time.monotonic()))
        part = os.read(self.stdout.fileno(), 65536) if ready else b""
        self.printed += part
        return bool(part)


def start_job(
    script: Path,
    *arguments: str,
    folder: Path,
    environ: Mapping[str, str],
    inside: Sequence[str] = (),
    late: Collection[str] | None = None,
) -> Job:
    """Start ``script`` in ``folder``; ``inside`` is a command that starts others in a network of its own.

    With ``late``, the vendor's variables, it and its ranks are forks of a process that has imported Lightning.
    """
    (their_stdin, stdin), (stdout, their_stdout) = os.pipe(), os.pipe()
    with open(their_stdin, "rb") as given, open(their_stdout, "wb") as output:
        if late is not None and not inside:
            begun = fork_script(
                script, *arguments, folder=folder, output=output, stdin=given, environ=environ, late=late
            )
        else:
            begun = subprocess.Popen(
                [*inside, sys.executable, str(script), *arguments],
                env=environ,
                cwd=folder,
                stdin=given,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    return Job(begun, open(stdin, "wb", buffering=0), open(stdout, "rb", buffering=0))
