"""The names of ``torch._C`` about devices, memory, streams, events and graphs, for ``torch.xpu``: as torch has them."""

from __future__ import annotations

import itertools
import uuid as uuids
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

import torch
from typing_extensions import Self

import northbridge
from northbridge_cpu_sim import module as chip
from northbridge_xpu.simulated import machine

_has_xpu = True
_xpu_isInBadFork = chip._is_in_bad_fork
_xpu_getDevice = chip.current_device
_xpu_setDevice = chip.set_device
_xpu_exchangeDevice = chip._exchange_device
_xpu_maybeExchangeDevice = chip._maybe_exchange_device
_xpu_canDeviceAccessPeer = chip.can_device_access_peer
_xpu_synchronize = chip.synchronize
_xpu_emptyCache = chip.empty_cache
_xpu_resetPeakMemoryStats = chip.reset_peak_memory_stats
_xpu_resetAccumulatedMemoryStats = chip.reset_accumulated_memory_stats
_xpu_getMemoryInfo = chip.mem_get_info


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


def _xpu_getDeviceCount() -> int:
    """Count the devices that this process sees."""
    return len(machine.visible())


def _xpu_getArchFlags() -> str | None:
    """Return the architectures that torch was compiled for: none, as in a build without ahead-of-time compilation."""
    return None


_numbers = itertools.count(1)


def without(what: str) -> Callable[..., NoReturn]:
    """Return a function that raises :class:`northbridge.NotSimulatedError`, for what the simulated chip lacks."""

    def reject(*_: object, **__: object) -> NoReturn:
        text = f"the simulated Intel GPU has no {what}; a real one may have it"
        raise northbridge.NotSimulatedError(text, backend="xpu")

    return reject


_xpu_memorySnapshot = without("snapshot of its memory")
_xpu_recordMemoryHistory = without("history of its memory")
_xpu_getMemoryFraction = _xpu_setMemoryFraction = without("limit of its memory for one process")
_xpu_customAllocator = _xpu_changeCurrentAllocator = _xpu_getAllocator = without("other allocators")


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


def _use_pool(device: int, mempool_id: tuple[int, int]) -> None:
    """Begin or end to allocate from a pool, or drop it: all memory is of one kind."""


_xpu_beginAllocateCurrentThreadToPool = _xpu_endAllocateToPool = _xpu_releasePool = _use_pool


class _XpuStreamBase(torch.Stream):
    """A stream of the simulated chip, under torch's names."""

    def __new__(cls, priority: int = 0, stream_id: int = 0, device_index: int = 0, device_type: int = 0) -> Self:
        if device_type:
            return super().__new__(cls, stream_id=stream_id, device_index=device_index, device_type=device_type)
        return super().__new__(cls, torch.device("xpu", chip.current_device()), priority=priority)

    priority: int = 0  # the simulated chip has one

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Return the least and the greatest priority, which are one."""
        return 0, 0

    @property
    def sycl_queue(self) -> int:
        """The number of the stream, for the address of its queue."""
        return self.stream_id


class _XpuEventBase(torch.Event):
    """An event of the simulated chip, under torch's names."""

    _clock: torch.Event

    def __new__(cls, enable_timing: bool = False) -> Self:
        event = super().__new__(cls, "xpu", enable_timing=enable_timing)
        # torch measures between events that are exactly of its own class.
        event._clock = torch.Event("xpu", enable_timing=enable_timing)
        return event

    def record(self, stream: torch.Stream | None = None) -> None:
        """Record the event in a stream."""
        super().record(stream)
        self._clock.record(stream)

    def elapsed_time(self, other: torch.Event) -> float:
        """Return the milliseconds from this event to the other."""
        return self._clock.elapsed_time(other._clock if isinstance(other, _XpuEventBase) else other)

    @property
    def sycl_event(self) -> int:
        """The address of the event; 0 before it is recorded."""
        return self.event_id


def _xpu_getCurrentStream(device: int) -> tuple[int, int, int]:
    """Return the stream's number, the device and its type."""
    return _facts_of(chip.current_stream(device))


def _xpu_getCurrentRawStream(device: int) -> int:
    """Return the address of the stream's queue, for compiled code."""
    return chip.current_stream(device).stream_id


def _xpu_setStream(stream_id: int, device_index: int, device_type: int) -> None:
    """Make a stream the current one of its device."""
    chip.set_stream(torch.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))


def _xpu_getStreamFromExternal(data_ptr: int, device: int) -> tuple[int, int, int]:
    """Return the facts of a stream for a queue that other code has made."""
    return data_ptr, device, _facts_of(chip.current_stream(device))[2]


def _facts_of(stream: Any) -> tuple[int, int, int]:
    return stream.stream_id, stream.device_index, stream.device_type


_captures = 0


class _XPUGraph(torch._C._acceleratorGraph):  # torch before 2.13, refused above, has none
    """A graph of the simulated chip, under torch's names."""

    def __new__(cls, keep_graph: bool = False) -> Self:
        return super().__new__(cls, keep_graph)

    def __init__(self, keep_graph: bool = False) -> None:
        super().__init__(keep_graph)

    def capture_begin(
        self,
        pool: tuple[int, int] | None = None,
        capture_error_mode: Literal["default", "global", "thread_local", "relaxed"] = "default",
    ) -> None:
        """Capture the work of the device from now on."""
        global _captures
        super().capture_begin(pool, capture_error_mode)
        _captures += 1

    def capture_end(self) -> None:
        """End the capture."""
        global _captures
        _captures -= 1
        super().capture_end()

    raw_xpu_graph = raw_xpu_graph_exec = without("graph of SYCL's")


def _xpu_graph_pool_handle() -> tuple[int, int]:
    """Return the number of a new pool."""
    return 0, next(_numbers)


def _xpu_isCurrentStreamCapturing() -> bool:
    """Return True while a graph captures."""
    return _captures > 0
