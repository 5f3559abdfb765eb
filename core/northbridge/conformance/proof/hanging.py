"""Processes that hang: where each of them stands, before they are ended."""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

DUMP = signal.SIGUSR2
"""At which a process writes its stacks. Not SIGUSR1, by which clusters tell that a job's time is up."""

_PATIENCE_S = 5.0
"""How long processes have for writing."""

_FILE = "stacks-{}.txt"


def dump_stacks_when_asked(folder: Path) -> None:
    """Have this process write its stacks into ``folder`` at :data:`DUMP`. Called at the beginning of a process."""
    # The file stays open: a handler of signals cannot open one.
    file = (folder / _FILE.format(os.getpid())).open("w")
    faulthandler.register(DUMP, file=file, all_threads=True)


def collect_stacks(group: int, folder: Path) -> str:
    """Return the stacks of those processes of the process group ``group`` that can tell theirs in ``folder``."""
    asked = [pid for pid in _members(group) if _catches(pid, DUMP)]
    for pid in asked:
        os.kill(pid, DUMP)
    return "\n".join(f"{_describe(pid)}:\n{stacks}" for pid, stacks in _read(asked, folder))


def _read(pids: Iterable[int], folder: Path) -> Iterable[tuple[int, str]]:
    until = time.monotonic() + _PATIENCE_S
    for pid in sorted(pids):
        file = folder / _FILE.format(pid)
        size = -1
        # Until it has grown no more for a moment: nobody tells when a dump is complete.
        while time.monotonic() < until and (size <= 0 or file.stat().st_size > size):
            size = file.stat().st_size if file.exists() else 0
            time.sleep(0.2)
        yield pid, file.read_text(errors="replace") if file.exists() else "it has written nothing"


def _members(group: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getpgid(int(entry.name)) == group:
                    found.append(int(entry.name))
            except ProcessLookupError:
                continue
    return found


def _catches(pid: int, number: int) -> bool:
    """Whether the process has a handler for the signal, which would end it otherwise."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) & 1 << (number - 1))


def _describe(pid: int) -> str:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return f"process {pid}"
    variables = dict(each.split(b"=", 1) for each in environ if b"=" in each)
    rank = variables.get(b"RANK", variables.get(b"LOCAL_RANK", b"0")).decode(errors="replace")
    return f"rank {rank} (process {pid})"
