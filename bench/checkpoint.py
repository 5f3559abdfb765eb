"""A checkpoint of 500 MB on the simulated chip, against Lightning's own on the CPU: time, and peak memory."""

from __future__ import annotations

import json
import sys
from typing import Literal

from bench import child
from bench.figure import Measurement
from bench.job import CPU_ENVIRONMENT
from bench.rounds import interleave, ratio

_NAMES = ("cpu_sim", "cpu")
_WORKER = [sys.executable, "-m", "bench.checkpoint_worker"]

Part = Literal["save_seconds", "load_seconds"]


def measure_checkpoint(part: Part, *, quick: bool) -> Measurement:
    """Save and load in turn in two processes, of which one always sleeps; a value is the ratio of one part of it.

    Several pairs of them, for the reasons of :func:`bench.step.measure_step`.
    """
    pairs = []
    chip, cpu = ({"accelerator": name} for name in _NAMES)
    for _ in range(1 if quick else 3):
        with child.conversation(_WORKER) as on_chip, child.conversation(_WORKER, environ=CPU_ENVIRONMENT) as on_cpu:
            pairs += interleave(lambda: float(on_chip(chip)[part]), lambda: float(on_cpu(cpu)[part]), 1 if quick else 5)
    return ratio(pairs, _NAMES, "ms", 1e3)


def measure_checkpoint_memory(*, quick: bool) -> Measurement:
    """Let one process after another save and load once, and ask each for its peak of resident memory."""

    def peak(accelerator: str) -> float:
        command = [*_WORKER, json.dumps({"accelerator": accelerator})]
        environ = CPU_ENVIRONMENT if accelerator == "cpu" else {}
        return float(json.loads(child.run(command, environ=environ))["peak_bytes"])

    chip, cpu = _NAMES
    return ratio(interleave(lambda: peak(chip), lambda: peak(cpu), 1 if quick else 3), _NAMES, "MiB", 2**-20)
