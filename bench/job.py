"""Questions to a worker, and its answers."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass

from bench import child


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
    """True if Ray Train's strategy trains in Ray's local mode, in which torchrun starts the ranks."""

    @property
    def command(self) -> list[str]:
        """The command line of a worker that does this job alone."""
        torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.devices}"]
        return [sys.executable, *(torchrun if self.ray else []), *_WORKER, json.dumps(asdict(self))]


@dataclass(frozen=True)
class Answer:
    """Cost of one fit: the median step, its call of log(), and the peak of the process's memory since it began."""

    step_seconds: float
    log_seconds: float
    peak_bytes: int


_WORKER = ["-m", "bench.worker"]

# The CPU is measured as Lightning alone has it.
CPU_ENVIRONMENT = {"NORTHBRIDGE_DISABLE": "1"}
ENVIRONMENTS = {"cpu": CPU_ENVIRONMENT, **{chip: {"NORTHBRIDGE_SIMULATE": chip} for chip in ("hpu", "sdaa")}}


def launch(job: Job, **environ: str) -> Answer:
    """Do one job in a process, or ranks, of its own. Raises :class:`bench.child.MeasurementError`."""
    ray = {"PYTHONPATH": str(child.ROOT / ".engines")} if job.ray else {}
    environment = {**ENVIRONMENTS.get(job.accelerator, {}), **ray, **environ}
    return Answer(**json.loads(child.run(job.command, environ=environment)))


@contextlib.contextmanager
def worker(environ: Mapping[str, str] | None = None) -> Iterator[Callable[[Job], Answer]]:
    """Start a worker that does one job after another, and sleeps in between."""
    with child.conversation([sys.executable, *_WORKER], environ=environ) as ask:
        yield lambda job: Answer(**ask(asdict(job)))
