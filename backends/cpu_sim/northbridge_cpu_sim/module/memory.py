"""Memory functions of a device, as in `torch.cuda.memory`."""

from __future__ import annotations

from typing import Any

import torch
from torch.accelerator import empty_cache as empty_cache

from northbridge_cpu_sim.module import chip
from northbridge_cpu_sim.module.chip import DeviceLike


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """Return a device's memory statistics, flat, under CUDA's names; empty before the first use."""
    return torch.accelerator.memory_stats(chip.index(device))


def memory_allocated(device: DeviceLike = None) -> int:
    """Return the bytes that tensors hold on a device."""
    return torch.accelerator.memory_allocated(chip.index(device))


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Return the peak of the bytes that tensors hold, since the last reset."""
    return torch.accelerator.max_memory_allocated(chip.index(device))


def memory_reserved(device: DeviceLike = None) -> int:
    """Return the bytes reserved on a device; nothing is cached, so they equal the allocated bytes."""
    return torch.accelerator.memory_reserved(chip.index(device))


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Return the peak of the bytes reserved on a device, since the last reset."""
    return torch.accelerator.max_memory_reserved(chip.index(device))


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Reset the peaks of a device to the memory in use."""
    torch.accelerator.reset_peak_memory_stats(chip.index(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Reset the sums of a device to 0."""
    torch.accelerator.reset_accumulated_memory_stats(chip.index(device))


_ROWS = {
    "Allocated memory": "allocated_bytes",
    "Active memory": "active_bytes",
    "Requested memory": "requested_bytes",
    "Reserved memory": "reserved_bytes",
    "Allocations": "allocation",
}
_COLUMNS = {"Cur Usage": "current", "Peak Usage": "peak", "Tot Alloc": "allocated", "Tot Freed": "freed"}


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:  # noqa: ARG001  # as CUDA has it
    """Return a device's memory statistics as a table, as CUDA prints them; the long form equals the abbreviated.

    Before the first use of the chip all figures are 0.
    """
    index = chip.index(device)
    stats = memory_stats(index)
    name = f"{chip.installed_type()}:{index}"
    lines = [f"{name} memory summary, out of memory {stats.get('num_ooms', 0)} times"]
    lines.append(" | ".join([f"{'Metric':<16}", *(f"{column:>12}" for column in _COLUMNS)]))
    for row, key in _ROWS.items():
        figures = (int(stats.get(f"{key}.all.{part}", 0)) for part in _COLUMNS.values())
        written = (f"{figure:>12}" if key == "allocation" else f"{_in_units(figure):>12}" for figure in figures)
        lines.append(" | ".join([f"{row:<16}", *written]))
    return "\n".join(lines)


def _in_units(count: int) -> str:
    unit, units = 0, ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    while count >= 100 * 1024 and unit + 1 < len(units):
        count, unit = count // 1024, unit + 1
    return f"{count} {units[unit]}"


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Return a device's free and total memory in bytes."""
    return torch.accelerator.get_memory_info(chip.index(device))
