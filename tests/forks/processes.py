"""Fork a process that has imported torch, for a run."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from tests.forks.linux_environ import ROOM
from tests.forks.program import AUTOLOAD, Program

from northbridge_conformance.runs.processes import Process, start_afresh, tells_of_a_launcher

MOST_SERVERS = 6
"""The number of servers: one with torch alone, of about 300 MB, and its forks that import more."""

_UNREAD = (
    "NORTHBRIDGE_",
    "PYTEST_",
    "FAIRCHIP_",
    "HABANA_",
    "HLS_",
    "PT_HPU_",
    "SDAA_",
    "TECO_",
    "ASCEND_",
    "ONEAPI_",
    "ZE_",
)
"""Prefixes of variables that the imports of a server do not read: ours, pytest's, and those of the simulated chips."""

_ENTRY = f"""
import sys
sys.path.append({str(Path(__file__).parents[2])!r})
from tests.forks.entry import main
sys.path.pop()
main()
"""


def fork(
    command: list[str],
    environ: Mapping[str, str],
    folder: Path,
    output: IO[bytes],
    late: Mapping[str, str] = MappingProxyType({}),
    imported: tuple[str, ...] = (),
    starts_ranks: bool = False,
    asks_on: bool = False,
    stdin: IO[bytes] | None = None,
) -> Process:
    """Fork a process that has torch, to run what :func:`start_afresh` would: ``["-m", module, …]`` or ``[script, …]``.

    Such a process is started for every set of variables that it could read. Those that are to have more ``imported``
    are forked from it, each from the one that lacks the last of these modules; of :data:`MOST_SERVERS` the one that was
    asked the longest ago gives way. ``late`` variables are those of which nothing is read before the fork, and win over
    ``environ``. Of a program that ``starts_ranks`` as scripts, by Lightning, the ranks are forks too
    (:mod:`tests.forks.ranks`); what one that ``asks_on`` forks by this function, with the same variables and modules,
    comes from the process that it comes from. It reads ``stdin``, or nothing. Where that process cannot import torch,
    or has threads, which a fork would lack, the run starts as by :func:`start_afresh`, with a :class:`RuntimeWarning`.
    """
    program = Program(tuple(command), {**environ, **late}, folder, starts_ranks, asks_on)
    try:
        with _one_at_a_time:
            server = _serve(_key(environ, imported))
        with open(os.devnull, "rb") as nothing:
            return server.fork(program, stdin or nothing, output)
    except _ServerError as error:
        warnings.warn(
            f"{program.name} was to run in the fork of a process that has imported torch, which saves seconds, and is"
            f" started afresh: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
        return start_afresh(command, program.environ, folder, output, stdin)


def _serve(key: _Key) -> _Server:
    """Return the server for ``key``; start it, and end another one, if there is none. Raises :class:`_ServerError`."""
    server = _servers.pop(key, None) or _OwnServer(key)
    while len(_servers) >= MOST_SERVERS:
        _servers.pop(next(iter(_servers))).end()
    _servers[key] = server  # the newest
    return server


def take_up(requests: int, environ: Mapping[str, str], imported: tuple[str, ...]) -> None:
    """Have the server ask which serves the socket ``requests``; called in a fork of it, before its program runs."""
    os.set_inheritable(requests, False)
    _servers[_key(environ, imported)] = _Server(socket.socket(fileno=requests))


@dataclass(frozen=True)
class _Key:
    """The package that a server has imported."""

    imported: tuple[str, ...]
    environ: frozenset[tuple[str, str]]


def _key(environ: Mapping[str, str], imported: tuple[str, ...]) -> _Key:
    return _Key(imported, frozenset(each for each in environ.items() if _is_read_before_the_fork(each[0])))


def _is_read_before_the_fork(variable: str) -> bool:
    # pytest writes its own into the environment of the process that it runs in, and a chip its vendor's of the one that
    # has loaded it. The server sets the autoload's itself.
    return not (variable.startswith(_UNREAD) or variable == AUTOLOAD or tells_of_a_launcher(variable))


class _ServerError(Exception):
    """There is no server, for the reason that is the message."""


class _Server:
    """A process of :mod:`tests.forks.server`, which ends when no process can ask it any more."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests

    def fork(self, program: Program, stdin: IO[bytes] | socket.socket, output: IO[bytes]) -> _Fork:
        """Return the process that runs ``program``; raises :class:`_ServerError`."""
        mine, theirs = Pipe()
        try:
            with theirs:
                sent = [theirs.fileno(), stdin.fileno(), output.fileno()]
                if program.asks_on:
                    sent.append(self._requests.fileno())
                socket.send_fds(self._requests, [b"."], sent)
            mine.send(program)
            pid = mine.recv()
            if not isinstance(pid, int):
                raise EOFError(f"the fork ended with {pid} before it could tell its pid")
        except (EOFError, OSError):
            mine.close()
            self._requests.close()  # whatever went wrong, it serves no more
            raise _ServerError(f"that process ended{self._how_it_ended()}") from None
        return _Fork(program, pid, mine)

    def end(self) -> None:
        """Ask it nothing more; its forks go on."""
        self._requests.close()

    def _how_it_ended(self) -> str:
        return ", as the one that started it may tell"


class _OwnServer(_Server):
    """One that this process has started, and that is gone when this process ends, unless a fork asks on."""

    def __init__(self, key: _Key) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="northbridge-fork-server-"))
        atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        # It reads the end of the file where this process ends, however it does.
        requests, theirs = socket.socketpair()
        with theirs, self._said.open("wb") as said:
            self._process = self._start(key, theirs, said)
        super().__init__(requests)
        atexit.register(self.end)

    def _start(self, key: _Key, requests: socket.socket, said: IO[bytes]) -> Process:
        if key.imported:
            command = (str(Path(__file__).with_name("entry.py")), "0", *key.imported)
            environ = {**dict(key.environ), AUTOLOAD: "0"}
            parent = _serve(replace(key, imported=key.imported[:-1]))
            return parent.fork(Program(command, environ, self._folder), requests, said)
        return subprocess.Popen(
            [sys.executable, "-c", _ENTRY, str(requests.fileno())],
            env={**dict(key.environ), **ROOM},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd=self._folder,
            pass_fds=[requests.fileno()],
            start_new_session=True,
        )

    @property
    def _said(self) -> Path:
        return self._folder / "said.txt"

    def end(self) -> None:
        """Ask it nothing more; it ends with the last of its forks."""
        super().end()
        atexit.unregister(self.end)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # that it runs on
            del self._process

    def _how_it_ended(self) -> str:
        said = self._said.read_text(errors="replace")[-12000:]
        try:
            return f" with exit code {self._process.wait(5)}: {said}"
        except subprocess.TimeoutExpired:
            return f", or waits for its last forks: {said}"


class _Fork:
    """A process whose parent is not this one."""

    def __init__(self, program: Program, pid: int, reply: Any) -> None:
        self.pid = pid
        self._program = program
        self._reply = reply
        self._code: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code; raises :class:`subprocess.TimeoutExpired`."""
        if self._code is None:
            if not self._reply.poll(timeout):
                assert timeout is not None
                raise subprocess.TimeoutExpired(self._program.command, timeout)
            try:
                code: int = self._reply.recv()[0]
            except EOFError:
                raise RuntimeError(
                    f"it is not known how process {self.pid}, {self._program.name}, ended: its parent was killed"
                ) from None
            finally:
                self._reply.close()
            self._code = code
        return self._code


_servers: dict[_Key, _Server] = {}
_one_at_a_time = threading.Lock()
