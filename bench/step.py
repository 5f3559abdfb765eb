"""A training step on the simulated chip, against the same step on Lightning's CPU accelerator."""

from __future__ import annotations

from bench.figure import Measurement
from bench.job import CPU_ENVIRONMENT, Job, launch, worker
from bench.rounds import interleave, ratio

_NAMES = ("cpu_sim", "cpu")


def measure_step(task: str, *, steps: int, quick: bool) -> Measurement:
    """Fit in turn in two processes, of which one always sleeps.

    Not in one process: the chip turns autograd's device threads off and changes what torch is asked at each step, and
    a process that has it is not the one that a user of the CPU has. Several pairs of processes, because two processes
    that do the same differ by a few percent, for as long as they live, by where their memory happens to lie.
    """
    pairs = []
    chip, cpu = (Job(task, accelerator, steps) for accelerator in _NAMES)
    for _ in range(1 if quick else 5):
        with worker() as on_chip, worker(CPU_ENVIRONMENT) as on_cpu:
            pairs += interleave(lambda: on_chip(chip).step_seconds, lambda: on_cpu(cpu).step_seconds, 3)
    return ratio(pairs, _NAMES, "ms", 1e3)


def measure_ddp_step(*, quick: bool, ray: bool = False) -> Measurement:
    """Launch two ranks in turn, a thread each: simccl on the chip, Gloo on the CPU."""
    chip, cpu = (Job("convnet", accelerator, 30, devices=2, threads=1, ray=ray) for accelerator in _NAMES)
    pairs = interleave(lambda: launch(chip).step_seconds, lambda: launch(cpu).step_seconds, 2 if quick else 9)
    return ratio(pairs, _NAMES, "ms", 1e3)


def measure_simulated_step(name: str, *, devices: int, quick: bool) -> Measurement:
    """Launch a simulated vendor's chip and the plain simulated chip in turn, both with autograd's device threads."""
    names = (name, "cpu_sim")
    steps = 60 if devices == 1 else 30
    simulated, plain = (Job("convnet", accelerator, steps, devices=devices, threads=1) for accelerator in names)
    threads = {"NORTHBRIDGE_CPU_SIM_AUTOGRAD_THREADS": "1"}
    pairs = interleave(
        lambda: launch(simulated, **threads).step_seconds,
        lambda: launch(plain, **threads).step_seconds,
        2 if quick else 9,
    )
    return ratio(pairs, names, "ms", 1e3)


def measure_mixed_step(precision: str, *, quick: bool) -> Measurement:
    """Fit the Transformer in ``precision`` on the chip, and in bf16-mixed on the CPU, in turn in two processes."""
    pairs = []
    chip = Job("transformer", "cpu_sim", 8, precision=precision)
    cpu = Job("transformer", "cpu", 8, precision="bf16-mixed")
    for _ in range(1 if quick else 5):
        with worker() as on_chip, worker(CPU_ENVIRONMENT) as on_cpu:
            pairs += interleave(lambda: on_chip(chip).step_seconds, lambda: on_cpu(cpu).step_seconds, 3)
    return ratio(pairs, (f"cpu_sim, {precision}", "cpu, bf16-mixed"), "ms", 1e3)


def measure_recompilation_watch(*, quick: bool) -> Measurement:
    """Fit in turn with and without the monitor, in one process for the reason of :mod:`bench.strategy`."""
    watched, plain = (Job("mlp", "cpu_sim", 150, threads=1, watched=watched) for watched in (True, False))
    pairs = []
    for _ in range(1 if quick else 3):
        with worker() as ask:
            pairs += interleave(lambda: ask(watched).step_seconds, lambda: ask(plain).step_seconds, 2 if quick else 9)
    return ratio(pairs, ("watched", "plain"), "ms", 1e3)


def measure_logging(*, quick: bool) -> Measurement:
    """Launch two ranks in turn, a thread each, and ask how long the call took that logs a loss of both."""
    chip, cpu = (Job("mlp", accelerator, 150, devices=2, threads=1, sync_dist=True) for accelerator in _NAMES)
    pairs = interleave(lambda: launch(chip).log_seconds, lambda: launch(cpu).log_seconds, 2 if quick else 9)
    return ratio(pairs, _NAMES, "µs", 1e6)


def measure_memory(*, quick: bool) -> Measurement:
    """Let one process after another do one fit, and ask each for its peak of resident memory."""
    chip, cpu = (Job("convnet", accelerator, 20) for accelerator in _NAMES)
    pairs = interleave(lambda: launch(chip).peak_bytes, lambda: launch(cpu).peak_bytes, 1 if quick else 5)
    return ratio(pairs, _NAMES, "MiB", 2**-20)
