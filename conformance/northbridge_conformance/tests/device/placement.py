"""Placement of tensors: the existing devices, the current one, and copies between two of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import nn

import northbridge
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.suite import shows
from northbridge_conformance.tests.device.one_device import (
    OneDevice,
    gradient_of,
    reject_without,
    rejected_where_denied,
)

UNSUPPORTED = (RuntimeError, northbridge.NorthbridgeError)


def _draw_again(chip: northbridge.Device) -> None:
    chip.seed(4)
    chip.set_random_state(chip.random_state())


ASKED: Mapping[str, Callable[[northbridge.Device, int], object]] = MappingProxyType(
    {
        "count": lambda chip, _: chip.count(),
        "root": lambda chip, index: chip.root(index),
        "label": lambda chip, index: chip.label(index),
        "memory_stats": lambda chip, index: chip.memory_stats(index),
        "empty_cache": lambda chip, _: chip.empty_cache(),
        "synchronize": lambda chip, _: chip.synchronize(),
        "random_numbers": lambda chip, _: _draw_again(chip),
    }
)
"""Calls to the Device, with the index of the device if they have one; some are named by the claim for them."""


class Placement(OneDevice):
    """Devices are counted, numbered and selected consistently, and their tensors do not mix."""

    advice = (
        "Look at Device.count(), select(index) and root(index): number i of the process's devices is the one that"
        " select(i) takes and root(i) names. Where a process holds one card, see “One card per process”. If a sum with"
        ' a CPU tensor gives a number, let it raise, or claim device_checks=northbridge.no("the reason").'
    )

    def test_device_beyond_the_count_raises(self, chip: northbridge.Device, device: torch.device) -> None:
        count = chip.count()

        assert count >= 1
        assert chip.count() == count
        with pytest.raises(RuntimeError):
            torch.ones(1, device=torch.device(chip.type, count)).item()

    def test_every_counted_device_computes(self, chip: northbridge.Device, device: torch.device, alone: bool) -> None:
        for index in range(chip.count()):
            there = torch.full((2,), index + 1.0, device=chip.root(index))

            assert (there * 2).tolist() == [2 * index + 2.0] * 2
            assert there.device == torch.device(chip.type, device.index if alone else index)

    def test_selecting_a_missing_device_raises(self, chip: northbridge.Device, device: torch.device) -> None:
        with pytest.raises(UNSUPPORTED):
            chip.select(chip.count())

        assert torch.ones(1, device=device).device == device

    def test_the_selected_device_is_the_current_one(
        self, chip: northbridge.Device, device: torch.device, index: int, other: torch.device, alone: bool
    ) -> None:
        assert torch.ones(1, device=chip.type).device == device
        if alone:
            with pytest.raises(UNSUPPORTED):
                chip.select(0 if index else 1)
            assert torch.ones(1, device=chip.type).device == device
            return

        chip.select(0)
        first = [torch.ones(1, device=chip.type).device, torch.ones(1).to(chip.type).device]
        chip.select(index)

        assert first == [other, other]
        assert torch.ones(1, device=chip.type).device == device

    def test_current_index_is_the_selected_device(self, chip: northbridge.Device, device: torch.device) -> None:
        assert chip.current_index() == device.index

    @pytest.mark.parametrize("asked", ASKED)
    @shows("{asked}")
    def test_device_call_keeps_the_current_device(
        self, backend: str, chip: northbridge.Device, device: torch.device, index: int, alone: bool, asked: str
    ) -> None:
        reject_without(backend, asked)
        for selected in [index] if alone else [0, index]:
            chip.select(selected)
            here = torch.ones(1, device=chip.type).device

            ASKED[asked](chip, selected if alone else index - selected)

            assert torch.ones(1, device=chip.type).device == here

    def test_results_are_on_the_device_of_their_inputs(
        self, chip: northbridge.Device, device: torch.device, other: torch.device, alone: bool
    ) -> None:
        if alone:
            with pytest.raises(RuntimeError):
                torch.ones(2, device=other)
            return
        chip.select(0)

        there = torch.ones(2, 2, device=device)

        assert (there @ there + 1).sum().device == device
        assert torch.zeros_like(there).device == device
        assert nn.functional.dropout(there).device == device

    @shows("device_checks")
    def test_mixing_device_and_cpu_tensors_raises(self, backend: str, device: torch.device) -> None:
        with rejected_where_denied(backend, "device_checks", _SILENT):
            _assert_raises(device.type, lambda: torch.add(torch.ones(2, device=device), torch.ones(2)).tolist())

    @shows("device_checks")
    def test_cpu_layer_with_a_device_tensor_raises(self, backend: str, device: torch.device) -> None:
        with rejected_where_denied(backend, "device_checks", _SILENT):
            _assert_raises(f"{device.type}|cpu", lambda: nn.Linear(2, 2)(torch.ones(1, 2, device=device)).tolist())

    def test_mixing_tensors_of_two_devices_raises(self, device: torch.device, other: torch.device, alone: bool) -> None:
        with pytest.raises(RuntimeError, match=_not_there(other) if alone else str(other)):
            torch.add(torch.ones(2, device=device), torch.ones(2, device=other))

    def test_a_tensor_moves_between_devices(self, device: torch.device, other: torch.device, alone: bool) -> None:
        if alone:
            with pytest.raises(RuntimeError, match=_not_there(other)):
                torch.arange(3, device=device).to(other)
            return

        moved = torch.arange(3, device=device).to(other)

        assert moved.device == other
        assert moved.tolist() == [0, 1, 2]
        assert moved.to(device).tolist() == [0, 1, 2]

    def test_devices_have_separate_memory(self, device: torch.device, other: torch.device, alone: bool) -> None:
        here = torch.zeros(3, device=device)
        if alone:
            with pytest.raises(RuntimeError, match=_not_there(other)):
                here.to(other)
            return

        there = here.to(other)
        there.add_(1)

        assert here.tolist() == [0, 0, 0]
        assert there.tolist() == [1, 1, 1]

    def test_second_load_changes_nothing(self, backend: str, chip: northbridge.Device, device: torch.device) -> None:
        held = torch.arange(3.0, device=device, requires_grad=True)
        module, before = chip.module, chip.current_index()

        northbridge.get(backend).bridge.load()
        again = northbridge.load(backend)

        assert again is northbridge.get(backend)
        assert again.device is chip
        assert chip.module is module
        assert chip.current_index() == before
        torch.autograd.backward((held * held).sum())
        assert gradient_of(held).tolist() == [0, 2, 4]
        assert torch.ones(1, device=chip.type).device == device

    def test_torch_knows_the_device_type(self, chip: northbridge.Device, device: torch.device) -> None:
        assert str(torch.device(chip.type, 0)) == f"{chip.type}:0"
        assert getattr(torch.ones(1, device=device), f"is_{chip.type}", True)
        assert getattr(torch, chip.type, chip.module) is chip.module  # torch's own lazy device has no module


_SILENT = "this is a silent error of the chip, of which a run warns"


def _assert_raises(words: str, mix: Callable[[], object]) -> None:
    """Check that ``mix()`` raises an error with ``words``; AssertionError, unlike pytest's own, may be a refusal."""
    try:
        found = mix()
    except RuntimeError as error:
        said = str(error)
    else:
        raise AssertionError(f"mixed tensors of the chip and the CPU gave {found}")
    assert re.search(words, said), said


def _not_there(device: torch.device) -> str:
    """Return a pattern for the error about a missing device; some libraries leave out its type, or its number."""
    return f"device|:{device.index}"
