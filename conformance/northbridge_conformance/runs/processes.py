"""The processes of a run: their environment, the ports at which they meet, and their start."""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import IO

from northbridge.processes.child import Process as Process

_OF_LAUNCHERS = ("SLURM_", "TORCHELASTIC_", "JSM_", "LSB_", "OMPI_", "PMI_", "_NORTHBRIDGE_LAUNCHER")
_OF_RANKS = frozenset(
    {
        "GROUP_RANK",
        "LOCAL_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
        "NODE_RANK",
        "PL_GLOBAL_SEED",
        "RANK",
        "WORLD_SIZE",
    }
)

_OF_OTHERS = (
    "LD_",
    "NORTHBRIDGE_",
    "OMP_",
    "PYTHON",
    "TORCH_DEVICE_BACKEND_AUTOLOAD",
)
"""The beginnings of variables that Python, the linker, torch and its libraries read."""

ONE_THREAD: Mapping[str, str] = MappingProxyType({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
"""One thread for each rank: launchers differ in this number, and a sum's last bit may depend on it. Also, a process
whose imports left threads cannot be forked.
"""

inherited: ContextVar[Mapping[str, str]] = ContextVar("inherited", default=os.environ)
"""The environment that the processes of a run inherit.

A thread that runs beside the tests sets a copy: a test may change this process's, for example to select a card.
"""


def tells_of_a_launcher(variable: str) -> bool:
    """Return True if a launcher sets ``variable`` in its processes; the suite starts its own ranks."""
    return variable in _OF_RANKS or variable.startswith(_OF_LAUNCHERS)


def is_read_by_others(variable: str) -> bool:
    """True if software other than the vendor's reads ``variable``: in each process that inherits it, too."""
    return variable.startswith(_OF_OTHERS)


def environ_of_runs() -> dict[str, str]:
    """Return the inherited environment in the form that the suite's processes get."""
    kept = {key: value for key, value in inherited.get().items() if not tells_of_a_launcher(key)}
    return {**kept, **ONE_THREAD}


MOST_HELD = 64
"""The number of ports that this process holds: far more than its concurrent runs, and few open files."""

_held: list[socket.socket] = []


def reserve_port() -> int:
    """Return a loopback port on which a rank can listen, and which the system gives to no other process.

    A port that was free a moment ago is not enough: rank 0 needs seconds to import torch before it listens, and
    meanwhile the system may give this port to any process that asks for an arbitrary one. So it stays bound, with
    SO_REUSEADDR and without listening. Rank 0 binds it by its number, as torch does; a process that asks for an
    arbitrary port gets another.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _held.append(holder)
    _let_go(MOST_HELD)
    return int(holder.getsockname()[1])


def _let_go(most: int) -> None:
    """Close the oldest ports until at most ``most`` are held."""
    while len(_held) > most:
        _held.pop(0).close()


atexit.register(_let_go, 0)


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
