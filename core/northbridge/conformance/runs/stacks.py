"""Processes that hang: where each of them stands, before they are ended."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

DUMP = signal.SIGUSR2
"""At which a process writes its stacks. Not SIGUSR1, by which clusters tell that a job's time is up."""

_PATIENCE_S = 5.0
"""How long processes have for writing."""

_FILE = "stacks-{}-of-rank-{}.txt"


def dump_stacks_when_asked(folder: Path) -> None:
    """Have this process write its stacks into ``folder`` at :data:`DUMP`. Called at the beginning of a process."""
    # What it says of itself by now: others see of a fork the variables that it was forked with.
    rank = os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0"))
    # The file stays open: a handler of signals cannot open one.
    file = (folder / _FILE.format(os.getpid(), rank)).open("w")
    faulthandler.register(DUMP, file=file, all_threads=True)


def collect_stacks(group: int, folder: Path) -> str:
    """Return the stacks of those processes of ``group``, and of their children, that can tell theirs in ``folder``.

    ``group`` is a process group; torchrun gives each of its ranks a session of its own, which is no longer in it.
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
    """Kill the process group ``group``, and the children that have left it, if there are any."""
    members = _members(group)  # whose parents are not told once the group is gone
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    for pid in members:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _read(asked: Mapping[int, Path]) -> Iterable[tuple[int, str]]:
    until = time.monotonic() + _PATIENCE_S
    for pid, file in sorted(asked.items()):
        size = -1
        # Until it has grown no more for a moment: there is no sign that a dump is complete.
        while time.monotonic() < until and (size <= 0 or file.stat().st_size > size):
            size = file.stat().st_size
            time.sleep(0.2)
        yield pid, file.read_text(errors="replace") or "it has written nothing"


def _members(group: int) -> list[int]:
    """Return the processes of ``group``, and all that they have started and that still have a parent."""
    parents, found = {}, set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # Behind the name, which may hold anything: the state, the parent and the group.
                _, parent, own = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            except OSError:  # it has ended
                continue
            parents[int(entry.name)] = int(parent)
            if int(own) == group:
                found.add(int(entry.name))
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def _catches(pid: int, number: int) -> bool:
    """Whether the process has a handler for the signal, which would end it otherwise."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) & 1 << (number - 1))
