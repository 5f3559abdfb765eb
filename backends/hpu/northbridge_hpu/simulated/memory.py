"""The functions of ``torch.hpu`` about memory. All of them take the card."""

from __future__ import annotations

from northbridge_cpu_sim import module as chip
from northbridge_hpu.simulated.devices import DeviceLike, _lazy_init

_KEYS = {
    "InUse": "allocated_bytes.all.current",
    "MaxInUse": "allocated_bytes.all.peak",
    "NumAllocs": "allocation.all.allocated",
    "NumFrees": "allocation.all.freed",
    "ActiveAllocs": "allocation.all.current",
    # Each tensor's memory is taken from the host: the allocator's numbers are the system's too.
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
    """Return the most bytes that have been in use since the peak was last reset."""
    return memory_stats(device)["MaxInUse"]


def memory_reserved(device: DeviceLike = None) -> int:
    """Return the bytes that the process keeps for itself: all that the card has."""
    return memory_stats(device)["Limit"]


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Return the bytes that are free, and all that there are."""
    stats = memory_stats(device)
    return stats["Limit"] - stats["InUse"], stats["Limit"]


def reset_peak_memory_stats(device: DeviceLike = None) -> None:  # noqa: ARG001
    """Start the peak anew at what is in use."""
    _lazy_init()
    chip.reset_peak_memory_stats()
