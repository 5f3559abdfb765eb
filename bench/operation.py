"""One operation on the simulated chip, against the same on the CPU."""

from __future__ import annotations

import sys

from bench import child
from bench.figure import Measurement
from bench.job import CPU_ENVIRONMENT
from bench.rounds import interleave, ratio

_NAMES = ("cpu_sim", "cpu")
_WORKER = [sys.executable, "-m", "bench.operation_worker"]


def measure_operation(name: str, *, calls: int, quick: bool) -> Measurement:
    """Run ``calls`` calls in turn in two processes, of which one always sleeps; a value is the ratio of two such runs.

    Two processes, and several pairs of them, for the reasons of :func:`bench.step.measure_step`.
    """
    pairs = []
    chip, cpu = ({"operation": name, "device": device, "calls": calls} for device in _NAMES)
    for _ in range(1 if quick else 4):
        with child.conversation(_WORKER) as on_chip, child.conversation(_WORKER, environ=CPU_ENVIRONMENT) as on_cpu:
            pairs += interleave(
                lambda: float(on_chip(chip)["seconds"]), lambda: float(on_cpu(cpu)["seconds"]), 3 if quick else 11
            )
    return ratio(pairs, _NAMES, "µs", 1e6)


def measure_captured_step(*, quick: bool) -> Measurement:
    """Run a training step of many small operations and its graph in turn, in one process on the simulated chip."""
    pairs = []
    step, captured = ({"operation": name, "device": "cpu_sim", "calls": 20} for name in ("step", "captured-step"))
    for _ in range(1 if quick else 4):
        with child.conversation(_WORKER) as ask:
            pairs += interleave(
                lambda: float(ask(captured)["seconds"]), lambda: float(ask(step)["seconds"]), 3 if quick else 11
            )
    return ratio(pairs, ("captured", "eager"), "µs", 1e6)
