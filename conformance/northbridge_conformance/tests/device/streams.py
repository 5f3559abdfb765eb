"""Asynchronous work of the chip: its streams, and host memory for copies to and from them."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import torch
from torch import Tensor

import northbridge
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.tests.device.one_device import OneDevice

WAITS = ("wait_stream", "wait_event", "the event's wait")
"""The ways in which a stream waits for the work of another one."""


class Queues:
    """The streams of a chip as the suite uses them, or its one queue if it has no streams."""

    def __init__(self, chip: northbridge.Device) -> None:
        self._chip = chip
        self._module: Any = chip.module
        names = ("Stream", "Event", "stream", "current_stream")
        self.are_several: bool = all(hasattr(self._module, name) for name in names)

    def event(self, **options: Any) -> Any:
        """Return an event; without streams it is one of torch's own, which does nothing on some chips."""
        return self._module.Event(**options) if self.are_several else torch.Event(self._chip.type, **options)

    def may_raise(self) -> AbstractContextManager[Any]:
        """Let the block raise on a chip without streams: it has to raise, or to be right."""
        errors = () if self.are_several else (RuntimeError, TypeError, AttributeError)
        return suppress(*errors)

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


SIZE = 2**20

PAUSE_S = 0.1
"""The pause of the host between two events, in which the chip is idle."""

PATIENCE_S = 30.0
"""The limit for a copy on a busy machine."""


class Streams(OneDevice):
    """Work runs in its order, and is finished when a wait for it returns.

    If the chip's module has streams and events, they are independent and wait as told. If it has none, the chip has
    one queue, and torch's own streams and events raise, or are right.
    """

    advice = (
        "Device.synchronize() has to block until all queued work is done, copies that were not waited for included."
        " Streams are Stream, Event, stream and current_stream of torch.<type>, as torch.cuda has them."
    )

    @pytest.fixture
    def queues(self, chip: northbridge.Device) -> Queues:
        """The streams of the chip, or its one queue."""
        return Queues(chip)

    def test_operations_run_in_order(self, device: torch.device) -> None:
        numbers = torch.zeros(SIZE, device=device)

        for step in range(1, 30):
            numbers.mul_(2).add_(step).remainder_(1021)

        value = 0
        for step in range(1, 30):
            value = (2 * value + step) % 1021
        assert torch.equal(numbers.cpu(), torch.full((SIZE,), float(value)))

    def test_non_blocking_copy_to_the_device_is_complete(self, chip: northbridge.Device, device: torch.device) -> None:
        numbers = host_memory(SIZE).copy_(torch.arange(SIZE))

        there = numbers.to(device, non_blocking=True)
        doubled = there * 2
        chip.synchronize()
        numbers.zero_()

        assert torch.equal(doubled.cpu(), torch.arange(SIZE, dtype=torch.float32) * 2)
        assert torch.equal(there.cpu(), torch.arange(SIZE, dtype=torch.float32))

    def test_synchronize_completes_a_non_blocking_copy_to_the_cpu(
        self, chip: northbridge.Device, device: torch.device
    ) -> None:
        target = host_memory(SIZE).fill_(-1)
        numbers = torch.arange(SIZE, dtype=torch.float32, device=device)

        for _ in range(20):
            numbers = numbers + 1
        target.copy_(numbers, non_blocking=True)
        del numbers
        chip.synchronize()

        assert torch.equal(target, torch.arange(SIZE, dtype=torch.float32) + 20)

    def test_blocking_copy_to_the_cpu_is_complete(self, device: torch.device) -> None:
        numbers = torch.arange(SIZE, dtype=torch.float32, device=device)

        for _ in range(20):
            numbers = numbers + 1

        assert torch.equal(numbers.cpu(), torch.arange(SIZE, dtype=torch.float32) + 20)
        assert numbers[5].item() == 25

    @pytest.mark.parametrize("steps", [0, 20], ids=["a copy", "a sum"])
    def test_copy_to_another_device_waits_for_pending_work(
        self, device: torch.device, other: torch.device, alone: bool, steps: int
    ) -> None:
        numbers = host_memory(SIZE).copy_(torch.arange(SIZE)).to(device, non_blocking=True)
        for _ in range(steps):
            numbers = numbers + 1
        if alone:
            with pytest.raises(RuntimeError):
                numbers.to(other)
            return

        moved = numbers.to(other)

        assert torch.equal((moved * 2).cpu(), (torch.arange(SIZE, dtype=torch.float32) + steps) * 2)

    @pytest.mark.parametrize("way", WAITS)
    def test_one_stream_waits_for_another(self, device: torch.device, queues: Queues, way: str) -> None:
        # Copies only: a computation may run synchronously, and then no wait is needed.
        numbers, more = (host_memory(SIZE).copy_(torch.arange(SIZE) + first) for first in (1, 2))
        target = host_memory(SIZE).fill_(-1)
        first, second = queues.current(), queues.new()

        there = numbers.to(device, non_blocking=True)
        queues.wait(second, first, way)
        with queues.use(second):
            doubled = there * 2
            target.copy_(doubled, non_blocking=True)
            back = more.to(device, non_blocking=True)
        queues.wait(first, second, way)
        found = back * 3
        queues.synchronize(second)

        assert torch.equal(doubled.cpu(), numbers * 2)
        assert torch.equal(target, numbers * 2)
        assert torch.equal(found.cpu(), more * 3)

    @pytest.mark.parametrize("teller", ["the event", "the stream"])
    def test_query_is_true_only_after_the_work_is_done(
        self, chip: northbridge.Device, device: torch.device, queues: Queues, teller: str
    ) -> None:
        numbers = torch.arange(SIZE, dtype=torch.float32, device=device) + 1
        chip.synchronize()

        with queues.may_raise():
            for _ in range(5):
                target = host_memory(SIZE).fill_(-1)
                target.copy_(numbers, non_blocking=True)
                event = queues.event()
                event.record()
                asked = event if teller == "the event" else queues.current() or torch.accelerator.current_stream()
                until = time.monotonic() + PATIENCE_S
                while not asked.query():
                    assert time.monotonic() < until, f"{teller} says for {PATIENCE_S:g} s that a copy is not done"
                    chip.synchronize()

                assert torch.equal(target, torch.arange(SIZE, dtype=torch.float32) + 1)

    def test_memory_used_by_another_stream_is_not_reused(self, device: torch.device, queues: Queues) -> None:
        side = queues.new()
        kept = []
        for step in range(5):
            numbers = torch.full((SIZE,), float(step), device=device)
            queues.wait(side, queues.current())
            with queues.use(side):
                kept.append(numbers * 1)
            queues.record(numbers, side)
            del numbers
            torch.full((SIZE,), -1.0, device=device)
        queues.wait(queues.current(), side)

        assert [bounds(each) for each in kept] == [(step, step) for step in range(5)]

    def test_event_completes_after_the_work_before_it(self, device: torch.device, queues: Queues) -> None:
        with queues.may_raise():
            start, end = queues.event(enable_timing=True), queues.event(enable_timing=True)

            start.record()
            numbers = torch.ones(SIZE, device=device) * 2
            end.record()
            end.synchronize()

            assert start.query()
            assert end.query()
            assert start.elapsed_time(end) >= 0
            assert numbers[0].item() == 2

    def test_elapsed_time_between_events_is_in_milliseconds(self, chip: northbridge.Device, queues: Queues) -> None:
        with queues.may_raise():
            start, end = queues.event(enable_timing=True), queues.event(enable_timing=True)
            chip.synchronize()
            began = time.monotonic()
            start.record()
            start.synchronize()  # the chip has reached it

            time.sleep(PAUSE_S)
            end.record()
            end.synchronize()

            elapsed_ms, most_ms = start.elapsed_time(end), 1000 * (time.monotonic() - began)
            assert 900 * PAUSE_S <= elapsed_ms <= most_ms + 10

    def test_current_stream_follows_the_stream_context(
        self, chip: northbridge.Device, device: torch.device, queues: Queues
    ) -> None:
        if not queues.are_several:
            with queues.may_raise():  # or it is the one queue
                assert torch.Stream(device) == torch.accelerator.current_stream()
            return
        before, side = queues.current(), queues.new()

        with queues.use(side):
            assert queues.current() == side
        assert queues.current() == before
        assert side != before

        chip.synchronize()
        assert side.query()

    def test_synchronize_waits_for_every_stream(
        self, chip: northbridge.Device, device: torch.device, queues: Queues
    ) -> None:
        targets = [host_memory(SIZE).fill_(-1) for _ in range(3)]
        for number, target in enumerate(targets):
            with queues.use(queues.new()):
                target.copy_(torch.full((SIZE,), float(number), device=device), non_blocking=True)

        chip.synchronize()

        assert [bounds(target) for target in targets] == [(0, 0), (1, 1), (2, 2)]


def bounds(tensor: Tensor) -> tuple[float, float]:
    """Return the smallest and the largest number."""
    return tensor.min().item(), tensor.max().item()
