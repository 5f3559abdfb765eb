"""The names of ``torch._C`` about memory, for ``torch.xpu``."""

from __future__ import annotations

import itertools
from typing import Any, NoReturn

import torch

import northbridge
from northbridge_cpu_sim import module as chip

_pools = itertools.count(1)


def _refuse(what: str) -> NoReturn:
    raise northbridge.NotSimulatedError(f"the simulated Intel GPU has no {what}; see docs/xpu.md", backend="xpu")


def _xpu_emptyCache() -> None:
    chip.empty_cache()


def _xpu_memoryStats(device: int) -> dict[str, Any]:
    return _nested(chip.memory_stats(device))


def _nested(flat: dict[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        *path, last = name.split(".")
        place = nested
        for step in path:
            place = place.setdefault(step, {})
        place[last] = value
    return nested


def _xpu_resetPeakMemoryStats(device: int) -> None:
    chip.reset_peak_memory_stats(device)


def _xpu_resetAccumulatedMemoryStats(device: int) -> None:
    chip.reset_accumulated_memory_stats(device)


def _xpu_getMemoryInfo(device: int) -> tuple[int, int]:
    return chip.mem_get_info(device)


def _xpu_getMemoryFraction(device: int) -> float:
    return 1.0


def _xpu_setMemoryFraction(fraction: float, device: int) -> None:
    if fraction != 1.0:
        _refuse("limit for a process below the device's memory")


def _xpu_memorySnapshot(mempool_id: tuple[int, int] | None) -> dict[str, Any]:
    _refuse("snapshot of its memory")


def _xpu_recordMemoryHistory(*_: object, **__: object) -> None:
    _refuse("history of its memory")


class _xpu_XPUAllocator:
    """An allocator of torch's for XPU."""


def _xpu_customAllocator(alloc_fn: int, free_fn: int) -> _xpu_XPUAllocator:
    _refuse("allocators of others")


def _xpu_changeCurrentAllocator(allocator: _xpu_XPUAllocator) -> None:
    _refuse("allocators of others")


def _xpu_getAllocator() -> _xpu_XPUAllocator:
    return _xpu_XPUAllocator()


class _XPUMemPool:
    """A pool of memory: only its number, because nothing is cached."""

    def __init__(
        self, allocator: _xpu_XPUAllocator | None = None, is_user_created: bool = True, use_on_oom: bool = False
    ) -> None:
        self._allocator = allocator
        number = next(_pools)
        self._id = (0, number) if is_user_created else (number, 0)

    @property
    def id(self) -> tuple[int, int]:
        """The number."""
        return self._id

    @property
    def allocator(self) -> _xpu_XPUAllocator | None:
        """The allocator that it was made with."""
        return self._allocator

    def use_count(self) -> int:
        """Return the number of users: the pool itself."""
        return 1


def _xpu_beginAllocateCurrentThreadToPool(device: int, mempool_id: tuple[int, int]) -> None:
    """Allocate from a pool from now on: memory is the same everywhere."""


def _xpu_endAllocateToPool(device: int, mempool_id: tuple[int, int]) -> None:
    """End it."""


def _xpu_releasePool(device: int, mempool_id: tuple[int, int]) -> None:
    """Give the pool's memory back: it has none."""
