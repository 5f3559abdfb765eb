"""Entries in processes of their own, so that one that crashes or hangs ends its process and not the run."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.ops.entries import ROOT, Entry

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
    failures: tuple[str, ...]
    seconds: float


def run_entries(
    entries: Iterable[Entry], processes: int, report: Callable[[Finished], None] = lambda _: None
) -> list[Finished]:
    """Run ``entries`` in so many processes, and tell ``report`` of each when it has ended."""
    waiting: queue.SimpleQueue[Entry] = queue.SimpleQueue()
    for entry in entries:
        waiting.put(entry)
    finished: list[Finished] = []

    def serve() -> None:
        worker = None
        while True:
            try:
                entry = waiting.get_nowait()
            except queue.Empty:
                break
            worker = worker or _start()
            done, alive = _ask(worker, entry)
            finished.append(done)
            report(done)
            if not alive:
                worker.communicate()
                worker = None
        if worker is not None:
            worker.communicate()

    threads = [threading.Thread(target=serve) for _ in range(processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(finished, key=lambda done: str(done.entry))


def _start() -> subprocess.Popen[str]:
    command = [sys.executable, *WORKER]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)


def _ask(worker: subprocess.Popen[str], entry: Entry) -> tuple[Finished, bool]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    began = time.monotonic()
    alarm = threading.Timer(LIMIT_S, worker.kill)
    alarm.start()
    try:
        worker.stdin.write(json.dumps([entry.kind, entry.name, entry.dtype]) + "\n")
        worker.stdin.flush()
        answer = worker.stdout.readline()
    except BrokenPipeError:
        answer = ""
    finally:
        alarm.cancel()
    seconds = time.monotonic() - began
    if answer:
        said = json.loads(answer)
        said["failures"] = tuple(said["failures"])
        return Finished(entry, **said, seconds=seconds), True
    code = worker.wait()
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    if seconds >= LIMIT_S:
        how = f"being killed, because it ran for {LIMIT_S:.0f} s"
    return Finished(entry, 1, 0, 1, 0, (f"ended its process by {how}",), seconds), False
