"""Fork a process that has imported torch, for a run."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from types import MappingProxyType
from typing import IO

from tests.forks.program import AUTOLOAD, ROOM, Program

from northbridge_conformance.runs.processes import Process, start_afresh, tells_of_a_launcher

MOST_SERVERS = 12
"""The number of servers of one place, each of about 300 MB; one that is forked from another shares most of them."""

PLACE = "PYTEST_NORTHBRIDGE_FORKS"
"""The variable with the folder of the servers' sockets, which all processes share that have it."""

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

_SERVER = Path(__file__).with_name("server.py")
_SERVE = f"""
import sys
sys.path.append({str(_SERVER.parents[2])!r})
from tests.forks.server import main
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
    stdin: IO[bytes] | None = None,
) -> Process:
    """Fork a process that has torch, to run what :func:`start_afresh` would: ``["-m", module, …]`` or ``[script, …]``.

    Such a process is started for every set of variables that it could read. Those that are to have more ``imported``
    are forked from it, each from the one that lacks the last of these modules; of :data:`MOST_SERVERS` the one that was
    asked the longest ago gives way. ``late`` variables are those of which nothing is read before the fork, and win over
    ``environ``. Of a program that ``starts_ranks`` as scripts, by Lightning, the ranks are forks too
    (:mod:`tests.forks.ranks`). It reads ``stdin``, or nothing. Where that process cannot import torch, or has threads,
    which a fork would lack, the run starts as by :func:`start_afresh`, with a :class:`RuntimeWarning`.
    """
    program = Program(tuple(command), {**environ, **late}, folder, starts_ranks)
    try:
        with open(os.devnull, "rb") as nothing:
            return _ask(_serve(key_of(environ, imported)), program, stdin or nothing, output)
    except _ServerError as error:
        warnings.warn(
            f"{program.name} was to run in the fork of a process that has imported torch, which saves seconds, and is"
            f" started afresh: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
        return start_afresh(command, program.environ, folder, output, stdin)


@functools.cache
def place() -> Path:
    """Return the folder of the servers' sockets. The servers end with the process that has made it."""
    given = os.environ.get(PLACE)
    if given and Path(given).is_dir():
        return Path(given)
    folder = Path(tempfile.mkdtemp(prefix="northbridge-forks-"))
    (folder / "owner").write_text(str(os.getpid()))
    atexit.register(_remove, folder, os.getpid())
    os.environ[PLACE] = str(folder)
    return folder


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # and not a fork of it
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Key:
    """The packages that a server has imported, and the variables that they could read."""

    imported: tuple[str, ...]
    environ: frozenset[tuple[str, str]]

    @property
    def socket(self) -> Path:
        """The file of the server's socket."""
        text = repr((self.imported, sorted(self.environ)))
        return place() / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.socket"


def key_of(environ: Mapping[str, str], imported: tuple[str, ...] = ()) -> Key:
    """Return the key of the server for these variables and modules."""
    return Key(imported, frozenset(each for each in environ.items() if _is_read_before_the_fork(each[0])))


def _is_read_before_the_fork(variable: str) -> bool:
    # pytest writes its own into the environment of the process that it runs in, and a chip its vendor's of the one that
    # has loaded it. The server sets the autoload's itself.
    return not (variable.startswith(_UNREAD) or variable == AUTOLOAD or tells_of_a_launcher(variable))


class _ServerError(Exception):
    """There is no server, for the reason that is the message."""


def _serve(key: Key) -> Path:
    """Return the socket of the server for ``key``; start it if there is none. Raises :class:`_ServerError`."""
    path = key.socket
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            os.utime(path)  # the newest
        else:
            _start(key, path)
    for other in servers()[:-MOST_SERVERS]:
        end(other)
    return path


def end(server: Path) -> None:
    """Let a server end with the last of its forks."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as asker:  # another process may have ended it
        asker.connect(str(server))
        server.unlink()
        asker.send(b"!")


def servers() -> list[Path]:
    """Return the sockets of the servers, the one that was asked the longest ago first."""
    asked = {}
    for path in place().glob("*.socket"):
        with contextlib.suppress(FileNotFoundError):
            asked[path] = path.stat().st_mtime_ns
    return sorted(asked, key=asked.__getitem__)


def _start(key: Key, path: Path) -> None:
    environ = {**dict(key.environ), AUTOLOAD: "0"}
    owner = (place() / "owner").read_text()
    parent = _serve(replace(key, imported=key.imported[:-1])) if key.imported else None
    with socket.socket(socket.AF_UNIX) as requests, path.with_suffix(".txt").open("wb") as said:
        requests.bind(str(path))
        requests.listen()
        if parent:
            _ask(parent, Program((str(_SERVER), owner, *key.imported), environ, place()), requests, said)
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # that it runs on
            subprocess.Popen(
                [sys.executable, "-c", _SERVE, owner],
                env={**environ, **ROOM},
                stdin=requests.fileno(),
                stdout=said,
                stderr=subprocess.STDOUT,
                cwd=place(),
                start_new_session=True,
            )


def _ask(path: Path, program: Program, stdin: IO[bytes] | socket.socket, output: IO[bytes]) -> _Fork:
    """Return the process that runs ``program``, a fork of the server at ``path``. Raises :class:`_ServerError`."""
    try:
        with socket.socket(socket.AF_UNIX) as asker:
            asker.connect(str(path))
            socket.send_fds(asker, [b"."], [stdin.fileno(), output.fileno()])
            reply = Connection(asker.detach())
        reply.send(program)
        return _Fork(program, reply.recv(), reply)
    except (EOFError, OSError):
        said = path.with_suffix(".txt").read_text(errors="replace")[-12000:]
        raise _ServerError(f"that process ended: {said}") from None


class _Fork:
    """A process whose parent is not this one."""

    def __init__(self, program: Program, pid: int, reply: Connection) -> None:
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
                code: int = self._reply.recv()
            except EOFError:
                raise RuntimeError(
                    f"it is not known how process {self.pid}, {self._program.name}, ended: its parent was killed"
                ) from None
            finally:
                self._reply.close()
            self._code = code
        return self._code
