"""Processes of a run: the stacks of hung ones, and those that outlive it."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

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
