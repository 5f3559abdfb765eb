"""The two sides of a comparison: processes, or pairs of ranks, that are asked in turn."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import child
from bench.plugin import announce

Ask = Callable[[Mapping[str, Any]], dict[str, Any]]

_CPU = {"NORTHBRIDGE_DISABLE": "1"}  # the CPU is measured as Lightning alone has it
_ENGINES = {"PYTHONPATH": str(child.ROOT / ".engines")}


@dataclass(frozen=True)
class Side:
    """One side: the worker that is asked, alone or as two ranks."""

    worker: str
    """The worker's module in ``bench``, and its arguments."""

    ranks: int = 1
    environ: Mapping[str, str] = field(default_factory=dict)
    """``{folder}`` in a value is a new folder, in which the backend of :mod:`bench.host_backend` is installed."""

    chips: tuple[str, ...] = ()
    """The simulated chip of each rank, where they differ: each rank is then a node."""

    @contextlib.contextmanager
    def open(self) -> Iterator[Ask]:
        """Start it, and end it at the end. Raises :class:`bench.child.MeasurementError`."""
        command = [sys.executable, "-m", *f"bench.{self.worker}".split()]
        with tempfile.TemporaryDirectory() as folder:
            announce(Path(folder), "host", "bench.host_backend")
            environ = {name: text.replace("{folder}", folder) for name, text in self.environ.items()}
            with child.conversation(command, ranks=self.ranks, environ=environ, chips=self.chips) as ask:
                yield ask


@dataclass(frozen=True, eq=False)
class Pair:
    """Two sides, and what the table calls them; where ``second`` is None, the first is asked both questions."""

    names: tuple[str, str]
    first: Side
    second: Side | None = None

    @contextlib.contextmanager
    def open(self) -> Iterator[tuple[Ask, Ask]]:
        """Start both, and end them at the end. Raises :class:`bench.child.MeasurementError`."""
        with contextlib.ExitStack() as stack:
            first = stack.enter_context(self.first.open())
            yield first, (first if self.second is None else stack.enter_context(self.second.open()))


def _against_cpu(worker: str, *, ranks: int = 1, environ: Mapping[str, str] | None = None) -> Pair:
    names = ("cpu_sim", "cpu")
    chip, cpu = (
        Side(worker.format(device=name), ranks, {**(environ or {}), **more})
        for name, more in zip(names, ({}, _CPU), strict=True)
    )
    return Pair(names, chip, cpu)


def _against_cpu_sim(simulated: str, *, ranks: int) -> Pair:
    # Both with autograd's device threads, which the simulated vendors' chips have.
    threads = {"NORTHBRIDGE_CPU_SIM_AUTOGRAD_THREADS": "1"}
    vendor = Side("worker", ranks, {"NORTHBRIDGE_SIMULATE": simulated, **threads})
    return Pair((simulated, "cpu_sim"), vendor, Side("worker", ranks, threads))


# Two processes: the chip turns autograd's device threads off and changes what torch is asked at each step, and a
# process that has it is not the one that a user of the CPU has.
STEPS = _against_cpu("worker")
MEMORY = _against_cpu("worker")
OPERATIONS = _against_cpu("operation_worker")
CHECKPOINTS = _against_cpu("checkpoint_worker")
CHECKPOINT_MEMORY = _against_cpu("checkpoint_worker")
LIGHTNING_RANKS = _against_cpu("worker", ranks=2)
RAY_RANKS = _against_cpu("worker", ranks=2, environ=_ENGINES)
RANKS = _against_cpu("rank_worker {device}", ranks=2)
HOST_RANKS = Pair(
    ("host", "gloo"), Side("rank_worker cpu_sim host", ranks=2), Side("rank_worker cpu", ranks=2, environ=_CPU)
)
ZERO_RANKS = _against_cpu("rank_worker {device}", ranks=2, environ=_ENGINES)
HPU, HPU_RANKS = (_against_cpu_sim("hpu", ranks=ranks) for ranks in (1, 2))
SDAA, SDAA_RANKS = (_against_cpu_sim("sdaa", ranks=ranks) for ranks in (1, 2))
_AUTOGRAD_THREADS = {"NORTHBRIDGE_CPU_SIM_AUTOGRAD_THREADS": "1"}
MIXED_RANKS = Pair(
    ("hpu + sdaa", "sdaa"),
    Side("worker", 2, chips=("hpu", "sdaa")),
    Side("worker", 2, {"NORTHBRIDGE_SIMULATE": "sdaa", **_AUTOGRAD_THREADS}),
)
TRAINERS = Pair(("sdaa", "cpu"), Side("worker", environ={"NORTHBRIDGE_SIMULATE": "sdaa"}), Side("worker", environ=_CPU))

# One process: its sides share all but what is compared, and where memory lies moves Python's speed by more than that.
WATCHED = Pair(("watched", "plain"), Side("worker"))
SNAPSHOTS = Pair(("with", "without"), Side("worker"))
CAPTURED = Pair(("captured", "eager"), Side("operation_worker"))
HOST = Pair(
    ("ours", "Lightning's"), Side("worker", environ={"PYTHONPATH": os.pathsep.join(["{folder}", str(child.ROOT)])})
)


def with_option(variables: Mapping[str, str]) -> Pair:
    """Return two pairs of ranks on the chip: with the variables of a strict option, and without."""
    return Pair(("with", "without"), Side("rank_worker cpu_sim", 2, variables), Side("rank_worker cpu_sim", 2))
