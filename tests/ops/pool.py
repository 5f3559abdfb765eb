"""Entries in processes of their own, so that one that crashes or hangs ends its process and not the run."""

from __future__ import annotations

import multiprocessing
import os
import pkgutil
import queue
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

from tests.ops.entries import Entry, Outcome

LIMIT_S = 300.0
"""So long may one entry run."""

RUN = {
    "operator": "operators.run",
    "overload": "overloads.run",
    "layer": "layers.run",
    "optimizer": "optimizers.run",
    "trace": "traces.run_trace",
    "export": "traces.run_export",
}
"""Imported when they are asked for: a fork is cheaper before torch's databases are there."""

Run = Callable[[Entry], Outcome]
_spawn = multiprocessing.get_context("spawn")  # torch and a chip are to be new in it


@dataclass(frozen=True)
class Finished:
    """An entry that was run, and what came of it."""

    entry: Entry
    outcome: Outcome


def run(entry: Entry) -> Outcome:
    """Return what comes of ``entry`` in this process."""
    outcome: Outcome = pkgutil.resolve_name(f"tests.ops.{RUN[entry.kind]}")(entry.name, entry.dtype)
    return outcome


def run_entries(
    entries: Sequence[Entry],
    processes: int,
    report: Callable[[Finished], None] = lambda _: None,
    environ: Mapping[str, str] = os.environ,
    run: Run = run,
) -> list[Finished]:
    """Run ``entries`` in so many processes of ``environ``, and tell ``report`` of each when it has ended."""
    waiting: queue.SimpleQueue[Entry] = queue.SimpleQueue()
    for entry in sorted(entries, key=lambda entry: entry.kind != "overload"):  # they need a process without a chip
        waiting.put(entry)
    finished: list[Finished] = []
    reporting = threading.Lock()

    def serve() -> None:
        worker = _Worker(run, environ)
        while not waiting.empty():
            try:
                entry = waiting.get_nowait()
            except queue.Empty:
                break
            done = Finished(entry, worker.run(entry))
            with reporting:
                finished.append(done)
                report(done)
        worker.end()

    threads = [threading.Thread(target=serve) for _ in range(processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(finished) < len(entries):  # a thread of ours has told its own error
        raise RuntimeError(f"{len(entries)} entries were to be run, and {len(finished)} were")
    return sorted(finished, key=lambda done: str(done.entry))


class _Worker:
    """A process that runs entries; where one ends it, there is another."""

    def __init__(self, run: Run, environ: Mapping[str, str]) -> None:
        self._given = run, dict(environ)
        self._start()

    def _start(self) -> None:
        self._asker, answers = _spawn.Pipe()
        self._process = _spawn.Process(target=_serve, args=(answers, *self._given), daemon=True)
        with answers:
            self._process.start()
        self._asker.recv()  # it has torch and the chip

    def run(self, entry: Entry) -> Outcome:
        """Return what came of ``entry``."""
        began = time.monotonic()
        try:
            self._asker.send(entry)
            if self._asker.poll(LIMIT_S):
                outcome: Outcome = self._asker.recv()
                return outcome
        except (EOFError, OSError):
            self._process.join()
        code = self._process.exitcode or 0
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        if time.monotonic() - began >= LIMIT_S:
            how = f"being killed, because it ran for {LIMIT_S:.0f} s"
        self.end()
        self._start()
        return Outcome(calls=1, failed=1, failures=[f"ended its process by {how}"])

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.join()
        self._asker.close()


def _serve(answers: Connection, run: Run, environ: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environ)
    import torch
    from tests.ops.calls import CHIP

    import northbridge

    northbridge.load(CHIP)
    torch.set_num_threads(1)
    answers.send("ready")
    while True:
        entry: Entry = answers.recv()
        try:
            outcome = run(entry)
        except Exception:  # noqa: BLE001 - the test's own, told as a failure of the entry
            outcome = Outcome(calls=1, failed=1, failures=[traceback.format_exc(limit=-3)])
        answers.send(outcome)
