"""The functions of ``torch.sdaa`` about memory that CUDA's has no more: what is reserved was called cached."""

from __future__ import annotations

from northbridge_cpu_sim import module as chip
from northbridge_sdaa.simulated.devices import DeviceLike


def empty_cache() -> None:
    """Give cached memory back, of which there is none."""
    chip.empty_cache()


def memory_cached(device: DeviceLike = None) -> int:
    """Return the bytes taken from a device."""
    return chip.memory_reserved(device)


def max_memory_cached(device: DeviceLike = None) -> int:
    """Return the most bytes taken from a device."""
    return chip.max_memory_reserved(device)


def reset_max_memory_cached(device: DeviceLike = None) -> None:
    """Start all peaks anew: they are not kept apart."""
    chip.reset_peak_memory_stats(device)


def reset_max_memory_allocated(device: DeviceLike = None) -> None:
    """Start all peaks anew: they are not kept apart."""
    chip.reset_peak_memory_stats(device)
