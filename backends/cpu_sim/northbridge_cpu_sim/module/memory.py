"""The memory of a device, as `torch.cuda.memory` has it."""

from __future__ import annotations

from typing import Any

import torch
from torch.accelerator import empty_cache as empty_cache

from northbridge_cpu_sim.module import chip
from northbridge_cpu_sim.module.chip import DeviceLike


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """Give a device's memory statistics, flat, under CUDA's names; empty before the first use."""
    return torch.accelerator.memory_stats(chip.index(device))


def memory_allocated(device: DeviceLike = None) -> int:
    """Give the bytes that tensors hold on a device."""
    return torch.accelerator.memory_allocated(chip.index(device))


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Give the most bytes that tensors have held since the peak was last reset."""
    return torch.accelerator.max_memory_allocated(chip.index(device))


def memory_reserved(device: DeviceLike = None) -> int:
    """Give the bytes taken from a device; nothing is cached, so these are the allocated ones."""
    return torch.accelerator.memory_reserved(chip.index(device))


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Give the most bytes taken from a device since the peak was last reset."""
    return torch.accelerator.max_memory_reserved(chip.index(device))


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Start the peaks of a device anew at what is in use."""
    torch.accelerator.reset_peak_memory_stats(chip.index(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Start the sums of a device anew at 0."""
    torch.accelerator.reset_accumulated_memory_stats(chip.index(device))


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Give a device's free and total memory in bytes."""
    return torch.accelerator.get_memory_info(chip.index(device))
