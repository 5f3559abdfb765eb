"""The processes of a run: their environment, ports and start, the stacks of hung ones, and those that outlive it."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
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


DUMP = signal.SIGUSR2
"""The signal at which a process writes its stacks. Not SIGUSR1, with which clusters announce the end of a job."""

RUN = "PYTEST_NORTHBRIDGE_RUN"
"""The variable that names the folder of a run in its processes; a daemon inherits it too."""

_PATIENCE_S = 5.0
"""The time that processes have for writing."""

_LINGER_S = 10.0
"""The time that processes have for ending after the ranks: some of them learn of it from a closed pipe."""

_FILE = "stacks-{}-of-rank-{}.txt"


def dump_stacks_when_asked(folder: Path) -> None:
    """Make this process write its stacks into ``folder`` at :data:`DUMP`. Called at the beginning of a process."""
    # Its own variables, read now: from outside, a fork shows the variables that it was forked with.
    rank = os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))
    # The file stays open: a signal handler cannot open one.
    file = (folder / _FILE.format(os.getpid(), rank)).open("w")
    faulthandler.register(DUMP, file=file, all_threads=True)


def collect_stacks(group: int, folder: Path) -> str:
    """Return the stacks of processes of ``group`` and their children, as far as they write them into ``folder``.

    ``group`` is a process group. torchrun starts each rank in a session of its own, outside the group.
    """
    asked = {
        pid: file for pid in _members(group) if _catches(pid, DUMP) for file in folder.glob(_FILE.format(pid, "*"))
    }
    for pid in asked:
        os.kill(pid, DUMP)
    return "\n".join(
        f"rank {asked[pid].stem.rpartition('-')[2]} (process {pid}):\n{stacks}" for pid, stacks in _read(asked)
    )


def kill_group(group: int) -> None:
    """Kill the process group ``group``, and the children that have left it, if any."""
    members = _members(group)  # the parents of these are unknown once the group is gone
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    for pid in members:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def await_ends(folder: Path) -> list[str]:
    """Return the command lines of processes of the run in ``folder`` that have not ended within a few seconds."""
    until = time.monotonic() + _LINGER_S
    while (left := _processes_of(folder)) and time.monotonic() < until:
        time.sleep(0.1)
    return list(left.values())


def kill_left(folder: Path) -> None:
    """Kill what is left of the run in ``folder``, including processes that have left its process group."""
    for pid in _processes_of(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _processes_of(folder: Path) -> dict[int, str]:
    """Return the command line of each process that works in ``folder``, or was started by one that did."""
    marker, place = f"{RUN}={folder}".encode(), str(folder.resolve())
    found = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if entry.name.isdigit() and (
                os.readlink(entry / "cwd") == place or marker in (entry / "environ").read_bytes().split(b"\0")
            ):
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                found[int(entry.name)] = " ".join(words).strip()
    return found


def _read(asked: Mapping[int, Path]) -> Iterable[tuple[int, str]]:
    until = time.monotonic() + _PATIENCE_S
    for pid, file in sorted(asked.items()):
        size = -1
        # Wait until it stops growing: nothing signals a complete dump.
        while time.monotonic() < until and (size <= 0 or file.stat().st_size > size):
            size = file.stat().st_size
            time.sleep(0.2)
        yield pid, file.read_text(errors="replace") or "it has written nothing"


def _members(group: int) -> list[int]:
    """Return the processes of ``group`` and their descendants, if these still have a parent."""
    parents, found = {}, set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # After the name, which may contain any character: the state, the parent and the group.
                _, parent, own = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            except OSError:  # the process has ended
                continue
            parents[int(entry.name)] = int(parent)
            if int(own) == group:
                found.add(int(entry.name))
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def _catches(pid: int, number: int) -> bool:
    """Return True if the process handles the signal, which would otherwise end it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) & 1 << (number - 1))
