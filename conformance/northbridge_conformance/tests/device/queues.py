"""The streams of a chip as the suite uses them, and host memory for copies to and from them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

import northbridge

WAITS = ("wait_stream", "wait_event", "the event's wait")
"""The ways in which a stream waits for the work of another one."""


class Queues:
    """The streams of a chip as the suite uses them, or its one queue if it has no streams."""

    def __init__(self, chip: northbridge.Device) -> None:
        self._chip = chip
        self._module: Any = chip.module
        names = ("Stream", "Event", "stream", "current_stream")
        self.are_several: bool = all(hasattr(self._module, name) for name in names)

    def current(self) -> Any:
        """Return the current stream."""
        return self._module.current_stream() if self.are_several else None

    def new(self) -> Any:
        """Return another stream."""
        return self._module.Stream() if self.are_several else None

    def use(self, stream: Any) -> AbstractContextManager[Any]:
        """Make ``stream`` current inside the ``with``."""
        return self._module.stream(stream) if self.are_several else nullcontext()

    def wait(self, stream: Any, other: Any, way: str = WAITS[0]) -> None:
        """Let later work of ``stream`` wait for the earlier work of ``other``."""
        if not self.are_several:
            return
        if way == "wait_stream":
            stream.wait_stream(other)
            return
        event = self._module.Event()
        event.record(other)
        if way == "wait_event":
            stream.wait_event(event)
        else:
            event.wait(stream)

    def synchronize(self, stream: Any) -> None:
        """Wait for the work of ``stream``."""
        if self.are_several:
            stream.synchronize()
        else:
            self._chip.synchronize()

    def record(self, tensor: Tensor, stream: Any) -> None:
        """Keep the memory of ``tensor`` until ``stream`` is done with it."""
        if self.are_several:
            tensor.record_stream(stream)


def host_memory(size: int) -> Tensor:
    """Return host memory, pinned if the chip can: only pinned memory allows asynchronous copies."""
    try:
        return torch.empty(size, pin_memory=True)
    except (RuntimeError, NotImplementedError):
        return torch.empty(size)
