"""The questions to the workers, and their answers: the other end of :func:`bench.child.conversation`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TextIO


@dataclass(frozen=True)
class Job:
    """One fit: of what, on what, and for how many measured steps."""

    task: str
    accelerator: str
    steps: int
    devices: int = 1
    threads: int = os.cpu_count() or 1
    precision: str = "32-true"
    sync_dist: bool = False
    """True if the logged loss is that of all ranks."""

    watched: bool = False
    """True if RecompilationMonitor watches."""

    sync_every: int = 0
    """Steps between two synchronizations of ``ddp_mixed``, whose ranks are nodes with one device; 0 for no such job."""

    snapshots: bool | None = None
    """True if Snapshots records every step, False if it records none."""

    ray: bool = False
    """True if Ray Train's strategy trains, in Ray's local mode, in which others start the ranks."""


@dataclass(frozen=True)
class Answer:
    """Cost of one fit: its Trainer, its median step and log(), and the peak of the process's memory since it began."""

    trainer_seconds: float
    step_seconds: float
    log_seconds: float
    peak_bytes: int


def questions(lines: Iterable[str] = sys.stdin) -> Iterator[dict[str, Any]]:
    """Yield what ``lines`` ask, as they come."""
    for line in lines:
        yield json.loads(line)


@dataclass(frozen=True)
class Answers:
    """Where answers go."""

    stream: TextIO

    @classmethod
    def capture_stdout(cls) -> Answers:
        """Keep stdout for answers; whatever anybody else prints goes to stderr from now on."""
        stream = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        return cls(stream)

    def give(self, answer: Mapping[str, Any]) -> None:
        """Answer the question that is open."""
        print(json.dumps(answer), file=self.stream, flush=True)
