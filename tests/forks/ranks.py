"""Let the ranks that Lightning starts as scripts be forks as well, of a process that has imported what the first has.

Such a rank is a child of the one that starts it, as it is where it is started afresh: the same parent, session and
group, the same files for input and output, and an exit code to wait for. What forks it is a process that has done
nothing since its imports, and has the first rank for its parent: it forks twice, and the grandchild, whose parent
ends, is adopted by the nearest of its ancestors that adopts (:manpage:`prctl(2)`, PR_SET_CHILD_SUBREAPER).
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.forks.program import Program

_ADOPT = 36  # PR_SET_CHILD_SUBREAPER of <linux/prctl.h>

_OF_A_RANK = ("LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "PL_GLOBAL_SEED", "WORLD_SIZE")
"""The variables that Lightning sets for a rank."""

_OURS = ("NORTHBRIDGE_", "_NORTHBRIDGE_", "PL_SEED_")
"""Prefixes of variables that no import reads."""


def stand_by(program: Program, files: list[int]) -> tuple[Program, list[int]]:
    """Return what is to run, and on which files: in this process what it got, and in each rank what that one does."""
    ours, theirs = socket.socketpair()
    handler = signal.getsignal(signal.SIGINT)
    if os.fork() == 0:
        ours.close()
        for file in files:
            os.close(file)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the ranks
        program, files = _serve(theirs)
        signal.signal(signal.SIGINT, handler)
        return program, files
    theirs.close()
    _Popen.requests, _Popen.program = ours, program
    subprocess.Popen = _Popen  # type: ignore[misc]  # a rank is whatever Lightning's launcher starts by this name
    return program, files


def _serve(requests: socket.socket) -> tuple[Program, list[int]]:
    """Return in a rank; end with the process that asks."""
    while True:
        _, descriptors, _, _ = socket.recv_fds(requests, 1, 4)
        if not descriptors:
            os._exit(0)
        reply, *files = descriptors
        with Connection(reply) as answer:
            program: Program = answer.recv()
            between = os.fork()
            if between == 0:
                between, rank = os.getpid(), os.fork()
                if rank == 0:
                    requests.close()
                    answer.close()
                    while os.getppid() == between:  # until it is adopted
                        time.sleep(0.001)
                    return program, files
                answer.send(rank)
                os._exit(0)
            os.waitpid(between, 0)
            answer.send(None)
        for file in files:
            os.close(file)


class _Popen(subprocess.Popen[Any]):
    """Starts a rank of Lightning's as a fork, and whatever else as ever."""

    requests: socket.socket
    program: Program

    def __init__(self, args: Any, *more: Any, **options: Any) -> None:
        self._is_rank = not more and options.keys() == {"env", "cwd"} and self._starts_a_rank(args, options["env"])
        super().__init__(args, *more, **options)

    def _starts_a_rank(self, args: Any, environ: Mapping[str, str] | None) -> bool:
        # What the imports have read may not be another's. What is new is what they have written, or a vendor's.
        return (
            environ is not None
            and list(args) == [sys.executable, *self.program.command]
            and all(
                name in _OF_A_RANK or name.startswith(_OURS) or environ.get(name) == value
                for name, value in self.program.environ.items()
            )
        )

    def _execute_child(self, args: Any, *more: Any) -> None:
        if not self._is_rank:
            super()._execute_child(args, *more)  # type: ignore[misc]  # how it starts a process is its own affair
            return
        cwd, environ = more[4], more[5]
        program = replace(self.program, environ=dict(environ), folder=Path(cwd or os.getcwd()), starts_ranks=False)
        mine, theirs = Pipe()
        _adopt(True)
        try:
            with mine:
                with theirs:
                    socket.send_fds(self.requests, [b"."], [theirs.fileno(), 0, 1, 2])
                mine.send(program)
                self.pid: int = mine.recv()
                mine.recv()  # the process that forked it has ended
        finally:
            _adopt(False)
        self._child_created = True


def _adopt(whether: bool) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(_ADOPT, int(whether), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
