"""The functions of ``torch.hpu`` about memory. Each acquires the card."""

from __future__ import annotations

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


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Return the free bytes, and all bytes."""
    stats = memory_stats(device)
    return stats["Limit"] - stats["InUse"], stats["Limit"]


def reset_peak_memory_stats(device: DeviceLike = None) -> None:  # noqa: ARG001
    """Reset the peak to the memory in use."""
    _lazy_init()
    chip.reset_peak_memory_stats()
