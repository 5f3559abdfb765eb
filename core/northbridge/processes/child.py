"""The one engine for work in child processes, which protects this process from their crashes, hangs and output.

A child answers in stages, each with its own time limit: a driver must answer at once, but software may compile for
minutes. A queue runs a few children at a time.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, TYPE_CHECKING, Any, NoReturn, Protocol

from northbridge.processes.endings import cpu_seconds, describe_exit, kill_session, last_words
from northbridge.processes.environment import python_command

_DONE = "done"
_GRACE_S = 3.0  # for a child that reports the limit itself, with more detail, and for a killed child
_POLL_S = 0.02
_LAST_BYTES = 2**16
_MOST_BYTES = 2**24
_WORD_BYTES = 32


@dataclass(frozen=True)
class Stage:
    """One step of a child."""

    doing: str
    """Text after "was killed while"."""

    limit: float
    """The time limit in seconds."""

    patience: str
    """Advice if the limit is exceeded."""


_START = Stage("starting Python", 60.0, "try when this machine is less busy")


@dataclass(frozen=True)
class Reply:
    """Reply of a child. If it ended before its last report, ``ending`` and ``stage`` say how and where."""

    facts: dict[str, Any] = field(default_factory=dict)
    ending: str = ""
    stage: str = ""
    exit_code: int | None = None
    """None if it did not end in time."""
    last_words: str = ""
    cpu_s: float = 0.0
    """The CPU time of a child that did not end in time, and of its children."""


class Process(Protocol):
    """The part of :class:`subprocess.Popen` that a forked process has too."""

    @property
    def pid(self) -> int:
        """The process's number, and that of its group."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code; raises :class:`subprocess.TimeoutExpired`."""
        ...


class Stopped(Exception):
    """Raised if the asker no longer needs an answer."""


def ask(
    question: str,
    stages: Mapping[str, Stage],
    tell: Callable[[str], None] = lambda _doing: None,
    *,
    start: Stage = _START,
    grace_s: float = _GRACE_S,
    stop: threading.Event | None = None,
) -> Reply:
    """Run the Python code ``question`` in a child process, and return its reports, made with a :class:`Reporter`.

    ``tell`` is called with each stage's ``doing``; ``start`` is the stage before the first report. If a stage exceeds
    its limit, or if ``stop`` is set, which raises :class:`Stopped`, the child and its process group are killed. Raises
    :class:`OSError` if Python cannot be started.
    """
    stop = stop or threading.Event()
    stage, name, facts, word = start, "", dict[str, Any](), os.urandom(_WORD_BYTES // 2).hex().encode()
    # Files, not pipes: a process that the driver leaves behind would hold a pipe open.
    with TemporaryDirectory(prefix="northbridge-child-", ignore_cleanup_errors=True) as folder:
        said = os.path.join(folder, "reports")
        with (
            TemporaryFile() as complained,
            open(said, "wb") as output,
            open(said, "rb") as reports,
            _started(python_command(question), subprocess.PIPE, output, complained) as child,
        ):
            assert child.stdin is not None
            with suppress(BrokenPipeError):
                child.stdin.write(word)
            exit_code, cpu_s = None, 0.0
            while True:
                tell(stage.doing)
                until = time.monotonic() + stage.limit + grace_s
                while (report := _next_report(reports, word)) is None and exit_code is None:
                    if time.monotonic() > until:
                        break
                    if stop.wait(_POLL_S):
                        raise Stopped
                    exit_code = child.poll()
                if report is None:
                    cpu_s = cpu_seconds(child.pid) if exit_code is None else 0.0
                    break
                name, found = report
                facts |= found
                if name == _DONE:
                    return Reply(facts)
                stage = stages[name]
            complained.seek(max(0, complained.seek(0, os.SEEK_END) - _LAST_BYTES))
            words = last_words(complained.read())
    where = f"while {stage.doing}" + (f" ({words})" if words else "")
    if exit_code is None:
        ending = f"took longer than {stage.limit:g} s {where}. Fix: {stage.patience}"
    else:
        ending = f"{describe_exit(exit_code)} {where}. Fix: match it to this torch and driver"
    return Reply(facts, ending, name, exit_code, words, cpu_s)


def run(command: list[str], *, limit_s: float, environ: Mapping[str, str]) -> tuple[int | None, bytes]:
    """Run a program in its own session; return its exit code, None if it exceeds the limit, and its output.

    Raises :class:`OSError` if it cannot be started.
    """
    with TemporaryFile() as printed:
        with _started(command, subprocess.DEVNULL, printed, subprocess.STDOUT, environ) as process:
            try:
                code: int | None = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                code = None
        printed.seek(0)
        return code, printed.read(_MOST_BYTES)


@contextmanager
def killed_at_end(process: Process) -> Iterator[None]:
    """Kill the process and its session at the end, also if Ctrl-C, which it does not get, ends the wait."""
    try:
        yield
    finally:
        kill_session(process.pid)
        with suppress(subprocess.TimeoutExpired):  # a driver that hangs in the kernel cannot be killed
            process.wait(_GRACE_S)


class Reporter:
    """The child's side: sends facts to the parent, and keeps other output of this process from it.

    The parent holds the other end of stdin: even if the parent is killed, this process and its children end too. The
    parent first writes a secret word there, with which each report begins. Earlier output, by a site hook or at the end
    of ``import torch``, does not have it.
    """

    def __init__(self) -> None:
        self._output, self._parent = os.dup(1), os.dup(0)
        self._word = os.read(self._parent, _WORD_BYTES)
        os.dup2(2, 1)
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        threading.Thread(target=self._end_with_parent, daemon=True).start()

    def _end_with_parent(self) -> None:
        os.read(self._parent, 1)
        kill_session(os.getpid())

    def begin(self, stage: str, **facts: object) -> None:
        """Report which stage begins, and the facts of the stage before."""
        report = json.dumps({"stage": stage, "facts": facts}).encode()
        os.write(self._output, b"\n" + self._word + report + b"\n")

    def end(self, **facts: object) -> NoReturn:
        """Report the last facts, and end this process at once: a vendor's threads may keep it alive for ever."""
        self.begin(_DONE, **facts)
        os._exit(0)


def _next_report(reports: IO[bytes], word: bytes) -> tuple[str, dict[str, Any]] | None:
    while (line := reports.readline()).endswith(b"\n"):
        if line.startswith(word):
            report = json.loads(line.removeprefix(word))
            return str(report["stage"]), dict(report["facts"])
    reports.seek(-len(line), os.SEEK_CUR)  # an incomplete line may grow
    return None


@contextmanager
def _started(
    command: list[str],
    stdin: int,
    output: IO[bytes],
    errors: IO[bytes] | int,
    environ: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command, stdin=stdin, stdout=output, stderr=errors, start_new_session=True, env=environ, bufsize=0
    )
    with killed_at_end(process), process.stdin or nullcontext():
        yield process


if TYPE_CHECKING:
    Tell = Callable[[str, str], None]
    """Called with the subject and the stage of a question; the stage is empty when the answer is there."""


class Queue(ThreadPoolExecutor):
    """Threads that ask children, a few at a time. At the end of this context, the children end too."""

    def __init__(self, tell: Tell) -> None:
        # Each child imports torch: more children than cores would only exceed each other's limits.
        super().__init__(min(4, max(2, os.cpu_count() or 2)))
        self._tell, self._one_at_a_time, self._stop = tell, threading.Lock(), threading.Event()

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self.shutdown(cancel_futures=True)

    def ask(self, who: str, question: str, stages: Mapping[str, Stage]) -> Reply:
        """Let a child answer ``question`` about ``who``. Raises :class:`Stopped`."""

        def tell(what: str) -> None:
            with self._one_at_a_time:
                self._tell(who, what)

        reply = ask(question, stages, tell, stop=self._stop)
        tell("")
        return reply
