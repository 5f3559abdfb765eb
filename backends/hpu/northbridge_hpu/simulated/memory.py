"""The functions of ``torch.hpu`` about memory. Each acquires the card."""

from __future__ import annotations

import warnings

from northbridge_cpu_sim import module as chip
from northbridge_hpu.simulated.devices import DeviceLike, _lazy_init

_KEYS = {
    "InUse": "allocated_bytes.all.current",
    "MaxInUse": "allocated_bytes.all.peak",
    "NumAllocs": "allocation.all.allocated",
    "NumFrees": "allocation.all.freed",
    "ActiveAllocs": "allocation.all.current",
    # Each tensor's memory is allocated from the host: the allocator's numbers are also the system's.
    "TotalSystemAllocs": "allocation.all.allocated",
    "TotalSystemFrees": "allocation.all.freed",
    "TotalActiveAllocs": "allocation.all.current",
    "MaxAllocSize": "allocated_bytes.all.peak",  # an upper bound: the largest allocation is not counted by itself
}


def memory_stats(device: DeviceLike = None) -> dict[str, int]:  # noqa: ARG001 - there is one
    """Return the allocator's numbers under the vendor's keys, sizes in bytes."""
    _lazy_init()
    stats = chip.memory_stats()
    return {"Limit": chip.mem_get_info()[1], **{key: int(stats[name]) for key, name in _KEYS.items()}}


def memory_allocated(device: DeviceLike = None) -> int:
    """Return the bytes in use."""
    return memory_stats(device)["InUse"]


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Return the peak of the bytes in use since the last reset."""
    return memory_stats(device)["MaxInUse"]


def memory_reserved(device: DeviceLike = None) -> int:
    """Return the bytes that the process has reserved: all of the card's memory."""
    return memory_stats(device)["Limit"]


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Return the most bytes that the process has reserved: all of the card's memory."""
    return memory_reserved(device)


def memory_cached(device: DeviceLike = None) -> int:
    """Return :func:`memory_reserved`, with a warning that names it."""
    warnings.warn("torch.hpu.memory_cached is called memory_reserved", FutureWarning, stacklevel=2)
    return memory_reserved(device)


def max_memory_cached(device: DeviceLike = None) -> int:
    """Return :func:`max_memory_reserved`, with a warning that names it."""
    warnings.warn("torch.hpu.max_memory_cached is called max_memory_reserved", FutureWarning, stacklevel=2)
    return max_memory_reserved(device)


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Return the free bytes, and all bytes."""
    stats = memory_stats(device)
    return stats["Limit"] - stats["InUse"], stats["Limit"]


def reset_peak_memory_stats(device: DeviceLike = None) -> None:  # noqa: ARG001
    """Reset the peak to the memory in use."""
    _lazy_init()
    chip.reset_peak_memory_stats()


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:  # noqa: ARG001
    """Reset the counts of allocations."""
    _lazy_init()
    chip.reset_accumulated_memory_stats()
