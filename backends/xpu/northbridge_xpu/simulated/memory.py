"""The names of ``torch._C`` about memory, for ``torch.xpu``."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NoReturn

import northbridge
from northbridge_cpu_sim import module as chip

_numbers = itertools.count(1)


def without(what: str) -> Callable[..., NoReturn]:
    """Return a function that raises :class:`northbridge.NotSimulatedError`, for what the simulated chip lacks."""

    def reject(*_: object, **__: object) -> NoReturn:
        text = f"the simulated Intel GPU has no {what}; see docs/simulated-intel-gpus.md"
        raise northbridge.NotSimulatedError(text, backend="xpu")

    return reject


_xpu_memorySnapshot = without("snapshot of its memory")
_xpu_recordMemoryHistory = without("history of its memory")
_xpu_getMemoryFraction = _xpu_setMemoryFraction = without("limit of its memory for one process")
_xpu_customAllocator = _xpu_changeCurrentAllocator = _xpu_getAllocator = without("other allocators")


def _xpu_emptyCache() -> None:
    """Return unused memory: nothing is cached."""
    chip.empty_cache()


def _xpu_memoryStats(device: int) -> dict[str, Any]:
    """Return the statistics as nested dictionaries."""
    stats: dict[str, Any] = {}
    for name, value in chip.memory_stats(device).items():
        *path, last = name.split(".")
        place = stats
        for step in path:
            place = place.setdefault(step, {})
        place[last] = value
    return stats


def _xpu_resetPeakMemoryStats(device: int) -> None:
    """Reset the peaks to the memory in use."""
    chip.reset_peak_memory_stats(device)


def _xpu_resetAccumulatedMemoryStats(device: int) -> None:
    """Reset the sums to 0."""
    chip.reset_accumulated_memory_stats(device)


def _xpu_getMemoryInfo(device: int) -> tuple[int, int]:
    """Return the free and the total memory in bytes."""
    return chip.mem_get_info(device)


class _xpu_XPUAllocator:
    """The type of an allocator."""


class _XPUMemPool:
    """A pool of memory, of which only the number exists: nothing is cached."""

    def __init__(
        self,
        allocator: _xpu_XPUAllocator | None = None,
        is_user_created: bool = True,
        use_on_oom: bool = False,
    ) -> None:
        number = next(_numbers)
        self._id = (0, number) if is_user_created else (number, 0)
        self._allocator = allocator

    @property
    def id(self) -> tuple[int, int]:
        """The pool's number, in the place for pools of users or in that for graphs'."""
        return self._id

    @property
    def allocator(self) -> _xpu_XPUAllocator | None:
        """The allocator with which it was made."""
        return self._allocator

    def use_count(self) -> int:
        """Return the number of users: the pool itself."""
        return 1


def _xpu_beginAllocateCurrentThreadToPool(device: int, mempool_id: tuple[int, int]) -> None:
    """Allocate from a pool from now on: all memory is of one kind."""


def _xpu_endAllocateToPool(device: int, mempool_id: tuple[int, int]) -> None:
    """Allocate from no pool any more."""


def _xpu_releasePool(device: int, mempool_id: tuple[int, int]) -> None:
    """Drop a pool."""
