"""Memory statistics of the chip, and its behaviour when memory is full."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import Any

import torch

import northbridge
from northbridge.capabilities import OPERATORS
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.runs.question import ask
from northbridge_conformance.suite import Suite
from northbridge_conformance.tests.device.claimed_operators import PROPERTY
from northbridge_conformance.tests.device.one_device import OneDevice, reject_without

MIB = 2**20
BLOCK = 32 * MIB
SLACK = 4 * MIB
"""The allowed excess of a block's size, because allocators round up."""


class Memory(OneDevice):
    """Statistics follow the allocations and releases of tensors, on the device of each tensor."""

    claims: tuple[str, ...] = ("memory_stats",)
    advice = (
        "Look at Device.memory_stats(index): by default it is torch.<type>.memory_stats(index), in bytes, of the device"
        " of that index; memory that no tensor holds any longer must not count as allocated."
    )

    @pytest.fixture(autouse=True)
    def counted(self, backend: str) -> None:
        """Raise :class:`UnsupportedError` if the chip denies statistics."""
        reject_without(backend, "memory_stats")

    @pytest.fixture
    def before(self, chip: northbridge.Device, device: torch.device) -> dict[str, float]:
        """The statistics at the start, after the first use of the device."""
        gc.collect()  # remains of a failed test
        torch.ones(1, device=device).item()
        return read(chip, device)

    def test_statistics_are_numbers(
        self, chip: northbridge.Device, device: torch.device, before: dict[str, float]
    ) -> None:
        assert before
        assert all(isinstance(value, (int, float)) for value in before.values())
        assert all(isinstance(name, str) for name in before)

    def test_a_tensor_is_counted_until_it_is_freed(
        self, chip: northbridge.Device, device: torch.device, before: dict[str, float]
    ) -> None:
        blocks = [torch.zeros(BLOCK, dtype=torch.uint8, device=device)]
        one = read(chip, device)
        blocks.append(torch.zeros(BLOCK, dtype=torch.uint8, device=device))
        two = read(chip, device)
        del blocks
        after = read(chip, device)

        followed = [
            name
            for name in in_bytes(before, one, 1)
            if name in in_bytes(before, two, 2) and after.get(name) == before.get(name, 0)
        ]
        assert followed, f"no number grew by {BLOCK} bytes with each of two tensors and came back: {before}, {two}"

    def test_peak_allocation_is_remembered(
        self, chip: northbridge.Device, device: torch.device, before: dict[str, float]
    ) -> None:
        blocks = [torch.zeros(BLOCK, dtype=torch.uint8, device=device) for _ in range(3)]
        during = read(chip, device)
        del blocks
        after = read(chip, device)

        remembered = [name for name, value in after.items() if value >= during[name] >= 3 * BLOCK]
        assert remembered, f"no number still tells of {3 * BLOCK} bytes that were allocated: {after}"

    def test_peak_allocation_can_be_reset(
        self, chip: northbridge.Device, device: torch.device, before: dict[str, float]
    ) -> None:
        module: Any = chip.module
        resets = hasattr(module, "reset_peak_memory_stats") and hasattr(module, "max_memory_allocated")
        blocks = [torch.zeros(BLOCK, dtype=torch.uint8, device=device) for _ in range(3)]
        del blocks
        chip.synchronize()
        if not resets:  # Northbridge calls neither
            return

        module.reset_peak_memory_stats(device)

        held = chip.memory_allocated(device.index)
        assert held <= module.max_memory_allocated(device) < held + BLOCK

    def test_view_allocates_no_memory(
        self, chip: northbridge.Device, device: torch.device, before: dict[str, float]
    ) -> None:
        block = torch.zeros(BLOCK, dtype=torch.uint8, device=device)
        one = read(chip, device)
        _view = block[:].view(2, -1).t()

        grown = in_bytes(before, one, 1)
        viewed = read(chip, device)

        assert grown, f"no number grew by {BLOCK} bytes with a tensor: {before}, {one}"
        assert {name: viewed[name] for name in grown} == {name: one[name] for name in grown}

    def test_training_steps_release_their_memory(
        self, chip: northbridge.Device, device: torch.device, before: dict[str, float]
    ) -> None:
        block = torch.zeros(BLOCK, dtype=torch.uint8, device=device)
        one = read(chip, device)
        del block
        again = read(chip, device)
        current = [name for name in in_bytes(before, one, 1) if again[name] == before.get(name, 0)]
        held = []
        for _ in range(4):
            layer = torch.nn.Linear(1024, 1024, device=device)
            layer(torch.ones(64, 1024, device=device)).sum().backward()
            del layer
            held.append({name: read(chip, device)[name] for name in current})

        assert current, f"no number grew by {BLOCK} bytes with a tensor and came back: {before}, {one}, {again}"
        # The first steps may allocate permanently, as for a library's workspace; later ones may not.
        assert held[3] == held[2]

    def test_statistics_are_per_device(
        self,
        chip: northbridge.Device,
        device: torch.device,
        other: torch.device,
        alone: bool,
        before: dict[str, float],
    ) -> None:
        if alone:
            with pytest.raises(RuntimeError):
                torch.zeros(BLOCK, dtype=torch.uint8, device=other)
            assert not in_bytes(before, read(chip, device), 1)
            return
        torch.ones(1, device=other).item()
        elsewhere = read(chip, other)

        block = torch.zeros(BLOCK, dtype=torch.uint8, device=other)
        assert in_bytes(elsewhere, read(chip, other), 1)
        assert not in_bytes(before, read(chip, device), 1)
        del block
        _block = torch.zeros(BLOCK, dtype=torch.uint8, device=device)
        assert in_bytes(before, read(chip, device), 1)

    def test_memory_allocated_agrees_with_the_statistics(
        self, chip: northbridge.Device, device: torch.device, before: dict[str, float]
    ) -> None:
        at_first = chip.memory_allocated(device.index)

        block = torch.zeros(BLOCK, dtype=torch.uint8, device=device)
        during = chip.memory_allocated(device.index)
        assert in_bytes(before, read(chip, device), 1)
        del block
        after = chip.memory_allocated(device.index)

        assert BLOCK <= during - at_first <= BLOCK + SLACK
        assert after == at_first
        if hasattr(chip.module, "max_memory_allocated"):
            assert chip.module.max_memory_allocated(device) >= BLOCK


def read(chip: northbridge.Device, device: torch.device) -> dict[str, float]:
    """Return the statistics of ``device``, by its index in this process, after all work is done."""
    chip.synchronize()
    return dict(chip.memory_stats(device.index))


def in_bytes(before: Mapping[str, float], after: Mapping[str, float], blocks: int) -> set[str]:
    """Return the statistics that grew by the size of ``blocks`` blocks; a new name counts from 0."""
    grown = {name: value - before.get(name, 0) for name, value in after.items()}
    return {name for name, more in grown.items() if blocks * BLOCK <= more <= blocks * (BLOCK + SLACK)}


WAYS = ("a new tensor", "a result", "a copy", "a growing tensor", "the same once more")


class OutOfMemory(Suite):
    """A request for too much memory raises an error, and the program continues with its tensors intact.

    It runs in a separate process, on the first device: if the chip ends the process, the suite continues.
    """

    claims: tuple[str, ...] = ("out_of_memory",)
    advice = (
        "The allocator of your torch plugin has to raise torch.OutOfMemoryError, or a RuntimeError whose words stand in"
        " Device.out_of_memory, and to leave the process and what it holds alone."
    )

    @pytest.fixture
    def found(self, backend: str) -> dict[str, Any]:
        """The findings of the process."""
        return ask("software:fill_memory", backend).facts

    @pytest.mark.parametrize("way", WAYS)
    def test_out_of_memory_error_is_recognized(
        self, request: pytest.FixtureRequest, backend: str, found: dict[str, Any], way: str
    ) -> None:
        told = found["told"][way]

        assert told["error"], told["said"]
        denied = northbridge.get(backend).present_capabilities().operators.get("resize")
        if denied is not None and way == "a growing tensor":
            request.node.user_properties.append((PROPERTY, f"{OPERATORS}resize"))
            if not told["known"]:
                raise northbridge.UnsupportedError(told["said"], capability=f"{OPERATORS}resize")
        assert told["known"], f"neither torch.OutOfMemoryError nor the words of Device.out_of_memory: {told}"

    def test_other_errors_are_not_out_of_memory_errors(self, found: dict[str, Any]) -> None:
        told = found["wrong shape"]

        assert told["error"], told["said"]
        assert not told["known"], f"the words of Device.out_of_memory stand in an error that is about shapes: {told}"

    def test_existing_tensors_stay_intact(self, found: dict[str, Any]) -> None:
        assert found["intact"]

    def test_small_allocation_succeeds_afterwards(self, found: dict[str, Any]) -> None:
        assert found["small"] == [2, 2, 2]

    def test_a_layer_trains_afterwards(self, found: dict[str, Any]) -> None:
        assert found["gradient"] == [[2] * 4] * 4

    def test_failed_allocations_leak_no_memory(self, found: dict[str, Any]) -> None:
        assert found["kept"] == {}

    def test_failed_allocations_keep_the_random_state(self, found: dict[str, Any]) -> None:
        assert found["drew nothing"]
