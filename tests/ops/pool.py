"""Entries in processes of their own, so that one that crashes or hangs ends its process and not the run."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from bench.child import started
from tests.ops.entries import Entry

from northbridge.processes.endings import last_words

WORKER = ("-m", "tests.ops.worker")

LIMIT_S = 300.0
"""So long may one entry run."""


@dataclass(frozen=True)
class Finished:
    """An entry that was run: its failures, none where the chip gave what the CPU gave."""

    entry: Entry
    calls: int
    backwards: int
    failed: int
    refused: int
    rounded: int
    failures: tuple[str, ...]
    seconds: float


def run_entries(
    entries: Sequence[Entry],
    processes: int,
    report: Callable[[Finished], None] = lambda _: None,
    environ: Mapping[str, str] = os.environ,
) -> list[Finished]:
    """Run ``entries`` in so many processes of ``environ``, and tell ``report`` of each when it has ended."""
    waiting: queue.SimpleQueue[Entry] = queue.SimpleQueue()
    for entry in sorted(entries, key=lambda entry: entry.kind != "overload"):  # they need a process without a chip
        waiting.put(entry)
    finished: list[Finished] = []
    reporting = threading.Lock()

    def serve() -> None:
        worker = None
        while True:
            try:
                entry = waiting.get_nowait()
            except queue.Empty:
                break
            worker = worker or _Worker(environ)
            done, alive = worker.run(entry)
            with reporting:
                finished.append(done)
                report(done)
            if not alive:
                worker.close()
                worker = None
        if worker is not None:
            worker.close()

    threads = [threading.Thread(target=serve) for _ in range(processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(finished) < len(entries):  # a thread of ours has told its own error
        raise RuntimeError(f"{len(entries)} entries were to be run, and {len(finished)} were")
    return sorted(finished, key=lambda done: str(done.entry))


class _Worker(ExitStack):
    """A process that runs entries, and the file that it writes its stderr to."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__()
        self._process, self._said = self.enter_context(started([sys.executable, *WORKER], environ=environ))

    def run(self, entry: Entry) -> tuple[Finished, bool]:
        """Return what came of ``entry``, and whether the process lives on."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        began = time.monotonic()
        alarm = threading.Timer(LIMIT_S, self._process.kill)
        alarm.start()
        try:
            self._process.stdin.write(json.dumps([entry.kind, entry.name, entry.dtype]) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            alarm.cancel()
        seconds = time.monotonic() - began
        if answer:
            said = json.loads(answer)
            said["failures"] = tuple(said["failures"])
            return Finished(entry, **said, seconds=seconds), True
        code = self._process.wait()
        how = (
            signal.Signals(-code).name
            if code < 0
            else f"exit code {code}, having said: {last_words(self._said.read_bytes()) or 'nothing'}"
        )
        if seconds >= LIMIT_S:
            how = f"being killed, because it ran for {LIMIT_S:.0f} s"
        return Finished(entry, 1, 0, 1, 0, 0, (f"ended its process by {how}",), seconds), False
