"""A question to the worker that trains, and its answer."""

from __future__ import annotations

import os
from dataclasses import dataclass


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

    ray: bool = False
    """True if Ray Train's strategy trains, in Ray's local mode, in which others start the ranks."""


@dataclass(frozen=True)
class Answer:
    """Cost of one fit: its Trainer, its median step and log(), and the peak of the process's memory since it began."""

    trainer_seconds: float
    step_seconds: float
    log_seconds: float
    peak_bytes: int
