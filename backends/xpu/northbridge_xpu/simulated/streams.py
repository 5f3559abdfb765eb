"""The names of ``torch._C`` about streams, events and graphs, for ``torch.xpu``."""

from __future__ import annotations

import itertools
from typing import Any, Literal

import torch
from torch._C import _acceleratorGraph
from typing_extensions import Self

from northbridge_cpu_sim import module as chip
from northbridge_xpu.simulated.devices import without


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


_handles = itertools.count(1)
_captures = 0


class _XPUGraph(_acceleratorGraph):
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
    return 0, next(_handles)


def _xpu_isCurrentStreamCapturing() -> bool:
    """Return True while a graph captures."""
    return _captures > 0
