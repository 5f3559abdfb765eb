"""The functions of ``torch._C`` about devices and memory, for ``torch.xpu``: each with torch's own name."""

from __future__ import annotations

import itertools
import uuid as uuids
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch

import northbridge
from northbridge_cpu_sim import module as chip
from northbridge_xpu.simulated import machine

_has_xpu = True


@dataclass(frozen=True)
class _XpuDeviceProperties:
    """The properties of one device, under torch's names; those of a Data Center GPU Max, as Intel publishes them."""

    name: str
    total_memory: int
    uuid: object
    platform_name: str = "Intel(R) oneAPI Unified Runtime over Level-Zero"
    vendor: str = "Intel(R) Corporation"
    type: str = "gpu"
    device_id: int = 0x0BD5
    driver_version: str = "simulated"
    version: str = "simulated"
    max_compute_units: int = 512
    gpu_eu_count: int = 512
    gpu_subslice_count: int = 64
    max_work_group_size: int = 1024
    max_num_sub_groups: int = 64
    sub_group_sizes: list[int] = field(default_factory=lambda: [16, 32])
    memory_clock_rate: int = 3200
    memory_bus_width: int = 64
    local_mem_size: int = 128 * 1024
    last_level_cache_size: int = 204 * 1024 * 1024
    architecture: int = 0
    has_fp16: bool = True
    has_fp64: bool = True
    has_atomic64: bool = True
    has_bfloat16_conversions: bool = True
    has_subgroup_matrix_multiply_accumulate: bool = True
    has_subgroup_matrix_multiply_accumulate_tensor_float32: bool = True
    has_subgroup_2d_block_io: bool = True
    is_integrated_gpu: bool = False


def _xpu_init() -> None:
    """Initialize the chip, and give ``torch.xpu`` its generators, as the C++ code does."""
    chip.init()
    generators = tuple(map(chip.default_generator, range(chip.device_count())))
    given = {"default_generators": generators, "_get_device_properties": _get_device_properties}
    for name, value in given.items():
        setattr(torch.xpu, name, value)


def _get_device_properties(device: int) -> _XpuDeviceProperties:
    """Return the properties of a device."""
    return _XpuDeviceProperties(
        name=chip.get_device_name(device),
        total_memory=chip.mem_get_info(device)[1],
        uuid=uuids.uuid5(uuids.NAMESPACE_OID, str(machine.visible()[device])),
    )


def _xpu_isInBadFork() -> bool:
    """Return True if this process was forked after its parent had used a device."""
    return chip._is_in_bad_fork()


def _xpu_getDeviceCount() -> int:
    """Count the devices that this process sees."""
    return len(machine.visible())


def _xpu_getDevice() -> int:
    """Return the current device."""
    return chip.current_device()


def _xpu_setDevice(device: int) -> None:
    """Make a device the current one."""
    chip.set_device(device)


def _xpu_exchangeDevice(device: int) -> int:
    """Make a device the current one, and return the one before."""
    return chip._exchange_device(device)


def _xpu_maybeExchangeDevice(device: int) -> int:
    """Do the same, which costs nothing that could be saved."""
    return chip._maybe_exchange_device(device)


def _xpu_canDeviceAccessPeer(device: int, peer: int) -> bool:
    """Return True if one device can copy from the other directly."""
    return chip.can_device_access_peer(device, peer)


def _xpu_synchronize(device: int) -> None:
    """Wait for the work of a device."""
    chip.synchronize(device)


def _xpu_getArchFlags() -> str | None:
    """Return the architectures that torch was compiled for: none, as in a build without ahead-of-time compilation."""
    return None


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
