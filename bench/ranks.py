"""Two ranks without Lightning: collectives, and steps of torch's own data-parallel trainings."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from bench import child
from bench.figure import Measurement
from bench.job import CPU_ENVIRONMENT
from bench.options import Option
from bench.rounds import interleave, ratio

_NAMES = ("simccl", "gloo")


def measure_collective(name: str, *, size: int, calls: int, quick: bool) -> Measurement:
    """Make ``calls`` calls in turn in two pairs of ranks, of which one always sleeps: simccl's, and Gloo's.

    Several such pairs one after the other: where a process's memory lies decides a large call's speed for all its life.
    ``size`` is the bytes of the larger tensor: what all ranks have reduced, hand out, or gathered.
    """
    pairs, rounds = (1, 2) if quick else (4, 5)
    question = {"collective": name, "bytes": size, "times": calls}
    return _chip_against_cpu(question, names=_NAMES, pairs=pairs, rounds=rounds)


def measure_sharded_step(*, quick: bool) -> Measurement:
    """Train in turn in two pairs of ranks: FSDP2 over simccl on the chip, and over Gloo on the CPU."""
    question = {"step": "fsdp2", "task": "transformer", "times": 5}
    return _chip_against_cpu(question, names=("cpu_sim", "cpu"), pairs=1, rounds=2 if quick else 9)


def measure_zero_step(*, quick: bool) -> Measurement:
    """Train in turn in two pairs of ranks: DeepSpeed's ZeRO-2 over simccl on the chip, and over Gloo on the CPU."""
    question = {"step": "zero-2", "task": "transformer", "times": 5}
    sees = {"PYTHONPATH": str(child.ROOT / ".engines")}
    rounds = 2 if quick else 9
    return _chip_against_cpu(question, names=("cpu_sim", "cpu"), pairs=1, rounds=rounds, environ=sees)


def measure_option(option: Option, *, quick: bool) -> Measurement:
    """Train in turn in two pairs of ranks on the chip: with the option, and without."""
    question = {"step": "ddp", "task": "convnet", "times": 15}
    with (
        tempfile.TemporaryDirectory() as folder,
        child.conversation(_command("cpu_sim"), environ=option.environ(folder)) as on,
        child.conversation(_command("cpu_sim")) as off,
    ):
        pairs = interleave(lambda: _seconds(on, question), lambda: _seconds(off, question), 2 if quick else 9)
    return ratio(pairs, ("with", "without"), "ms", 1e3)


def _chip_against_cpu(
    question: Mapping[str, Any],
    *,
    names: tuple[str, str],
    pairs: int,
    rounds: int,
    environ: Mapping[str, str] | None = None,
) -> Measurement:
    found = []
    for _ in range(pairs):
        with (
            child.conversation(_command("cpu_sim"), environ=environ) as on_chip,
            child.conversation(_command("cpu"), environ={**CPU_ENVIRONMENT, **(environ or {})}) as on_cpu,
        ):
            found += interleave(lambda: _seconds(on_chip, question), lambda: _seconds(on_cpu, question), rounds)
    return ratio(found, names, "ms", 1e3)


def _command(device: str) -> list[str]:
    return [sys.executable, "-m", "bench.rank_worker", device]


def _seconds(ask: Any, question: Mapping[str, Any]) -> float:
    return float(ask(question)["seconds"])
