"""Recording of the kernels, for a vendor's own profiler: `torch.profiler` records those of `cpu_sim` by itself."""

from __future__ import annotations

from typing import NamedTuple

from northbridge_cpu_sim.module import chip


class Kernel(NamedTuple):
    """One kernel that ran: its name, as `cpu_sim::mm`, and its time in nanoseconds since 1970."""

    name: str
    start: int
    end: int
    device: int
    stream: int


def record_kernels() -> None:
    """Record each kernel from now on, in all threads; kernels of a former recording are dropped."""
    chip.extension().record_kernels()


def recorded_kernels() -> list[Kernel]:
    """End the recording, and return its kernels in the order in which they ended."""
    return [Kernel(*row) for row in chip.extension().recorded_kernels()]
