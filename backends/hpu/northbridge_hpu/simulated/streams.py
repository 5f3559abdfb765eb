"""The streams and events of ``torch.hpu``: torch's own, with the vendor's signatures.

In lazy mode the current stream is stored once for all threads, apart from torch's own record of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from northbridge_cpu_sim import module as chip
from northbridge_hpu.simulated.devices import DeviceLike, _get_device_index, _lazy_init
from northbridge_hpu.simulated.markers import is_lazy

_record_stream = torch.Tensor.record_stream
_kept: Stream | None = None


class Stream(torch.Stream):
    """A queue of the card's work. Creating one acquires the card; device and priority are ignored."""

    def __new__(
        cls,
        device: DeviceLike = None,  # noqa: ARG004 - there is one
        priority: int = 0,  # noqa: ARG004 - all have the lowest
        *,
        stream_id: int | None = None,
    ) -> Stream:
        _lazy_init()
        if stream_id is None:
            stream_id = chip.Stream("hpu:0").stream_id
        kind = torch.accelerator.current_stream().device_type
        return super().__new__(cls, stream_id=stream_id, device_index=0, device_type=kind)

    @property
    def hpu_stream(self) -> int:
        """The number of the stream in the card's software."""
        return self.stream_id

    @property
    def priority(self) -> int:
        """The priority, which is the lowest for all streams."""
        return 0

    def id(self) -> int:
        """Return the number of the stream in torch."""
        return self.stream_id

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Put a mark at the end of the queue, and return it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __repr__(self) -> str:
        return f"<torch.hpu.Stream device={self.device} hpu_stream={self.hpu_stream:#x}>"


class Event(torch.Event):
    """A mark in a queue; two of them, made with ``enable_timing=True``, measure time."""

    _timed: torch.Event  # a copy of the mark: torch does not measure time to an object of a derived class

    def __new__(cls, enable_timing: bool = False) -> Event:
        event = super().__new__(cls, "hpu", enable_timing=enable_timing)
        event._timed = torch.Event("hpu", enable_timing=enable_timing)
        return event

    def record(self, stream: torch.Stream | None = None) -> None:
        """Put the mark at the end of ``stream``, or of the current stream."""
        stream = current_stream() if stream is None else stream
        super().record(stream)
        self._timed.record(stream)

    def elapsed_time(self, other: torch.Event) -> float:
        """Return the milliseconds from this mark to ``other``.

        Raises ValueError if one of them does not measure time, and RuntimeError if one is not reached.
        """
        return self._timed.elapsed_time(other._timed if isinstance(other, Event) else other)

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Let later work on ``stream``, or on the current stream, wait for the mark."""
        super().wait(current_stream() if stream is None else stream)


@contextmanager
def stream(stream: Stream | None) -> Iterator[None]:
    """Make a stream the current one inside the ``with``; None changes nothing. Entering acquires the card."""
    before = current_stream()
    set_stream(stream)
    try:
        yield
    finally:
        if stream is not None:
            set_stream(before)


def set_stream(stream: Stream | None) -> None:
    """Make a stream this thread's current one; None changes nothing.

    In lazy mode, setting the stream that any thread set last does nothing.
    """
    global _kept
    if stream is None or (is_lazy() and stream == _kept):
        return
    if is_lazy():
        _kept = stream
    chip.set_stream(stream)


def current_stream(device: DeviceLike = None) -> Stream:
    """Acquire the card, and return this thread's current stream; in lazy mode the stream that any thread set last."""
    global _kept
    if is_lazy() and _kept is not None:
        return _kept
    _get_device_index(device, True)
    found = Stream(stream_id=chip.current_stream(0).stream_id)
    if is_lazy():
        _kept = found
    return found


def default_stream(device: DeviceLike = None) -> Stream:
    """Acquire the card, and return the default stream."""
    _get_device_index(device, True)
    return Stream(stream_id=0)


def record_stream(tensor: torch.Tensor, stream: torch.Stream) -> None:
    """Keep the memory of ``tensor`` until ``stream`` has done the work that it had at the tensor's end."""
    _record_stream(tensor, stream)
