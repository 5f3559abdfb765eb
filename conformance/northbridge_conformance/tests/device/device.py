"""Basic tensor operations on one device."""

from __future__ import annotations

import torch

import northbridge
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.runs.comparison import address_of
from northbridge_conformance.tests.device.one_device import OneDevice

DTYPES = ("int32", "int16", "int8", "uint8", "bool")
"""The dtypes without a claim; Dtypes tests the others."""


class DeviceTests(OneDevice):
    """Tensors on a device behave as a user of torch expects."""

    advice = (
        "These are operators and copies of your torch plugin, run through torch alone: Northbridge adds nothing to"
        " them. docs/backend-interfaces.md, “What your torch plugin has to bring”, says what has to be there."
    )

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_copy_to_the_device_and_back_is_exact(self, device: torch.device, dtype: str) -> None:
        numbers = torch.arange(-8, 8).view(4, 4).to(getattr(torch, dtype))

        there = numbers.to(device)

        assert there.device == device
        assert there.dtype == numbers.dtype
        assert torch.equal(there.cpu(), numbers)
        assert torch.equal((there | there).cpu(), numbers)

    def test_copy_keeps_the_bits_of_nan_and_infinity(self, device: torch.device) -> None:
        words = torch.tensor([0x7F800000, -0x800000, 0x7FC00000, 0x7FC00123, -0x80000000, 1], dtype=torch.int32)

        there = words.view(torch.float32).to(device)

        assert torch.equal(there.view(torch.int32).cpu(), words)
        assert torch.equal(there.cpu().view(torch.int32), words)

    def test_infinity_and_nan_propagate(self, device: torch.device) -> None:
        numbers = torch.tensor([float("inf"), -float("inf"), float("nan"), 1.0], device=device)

        assert (numbers + 1).isinf().tolist() == [True, True, False, False]
        assert (numbers * 0).isnan().tolist() == [True, True, True, False]
        assert numbers.sum().isnan().item()
        assert numbers.max().isnan().item()
        assert (torch.zeros(1, device=device) / 0).isnan().item()
        assert (torch.ones(1, device=device) / 0).item() == float("inf")

    def test_empty_tensors(self, device: torch.device) -> None:
        nothing = torch.zeros(0, 3, device=device)

        assert nothing.sum().item() == 0
        assert (nothing + 1).shape == (0, 3)
        assert (torch.ones(2, 0, device=device) @ nothing).tolist() == [[0, 0, 0], [0, 0, 0]]
        assert torch.cat([nothing, torch.ones(1, 3, device=device)]).tolist() == [[1, 1, 1]]
        assert nothing.cpu().to(device).shape == (0, 3)

    def test_scalar_tensors(self, device: torch.device) -> None:
        number = torch.tensor(2.5, device=device)

        assert number.item() == 2.5
        assert (number * 2).shape == ()
        assert (number + torch.ones(2, device=device)).tolist() == [3.5, 3.5]
        assert float(number.expand(3).sum()) == 7.5

    def test_cpu_scalar_mixes_with_a_device_tensor(self, device: torch.device) -> None:
        found = torch.ones(2, device=device) + torch.tensor(2.0)

        assert found.device == device
        assert found.tolist() == [3, 3]

    def test_indexing(self, device: torch.device) -> None:
        numbers = torch.arange(6, device=device)

        numbers[numbers > 3] = -1
        numbers[torch.tensor([0, 1], device=device)] = 9

        assert numbers.tolist() == [9, 9, 2, 3, -1, -1]

    def test_in_place_operations_change_the_tensor(self, device: torch.device) -> None:
        numbers = torch.ones(3, device=device)

        assert numbers.add_(1).mul_(3) is numbers
        numbers += torch.arange(3, device=device)

        assert numbers.tolist() == [6, 7, 8]

    def test_out_argument_receives_the_result(self, device: torch.device) -> None:
        target = torch.empty(3, device=device)
        at = address_of(target)

        torch.add(torch.ones(3, device=device), 2, out=target)

        assert target.tolist() == [3, 3, 3]
        assert address_of(target) == at

    def test_type_promotion_of_integers_and_floats(self, device: torch.device) -> None:
        whole = torch.tensor([1, 2], dtype=torch.int32, device=device)

        assert (whole + 0.5).dtype == torch.float32
        assert (whole / 2).tolist() == [0.5, 1]
        assert (whole // 2).dtype == torch.int32
        assert (whole > 1).dtype == torch.bool
        assert (whole * torch.ones(2, device=device)).dtype == torch.float32

    def test_numpy_of_a_device_tensor_raises(self, device: torch.device) -> None:
        with pytest.raises(TypeError):
            torch.ones(1, device=device).numpy()

    def test_synchronize_and_empty_cache_keep_tensors(self, chip: northbridge.Device, device: torch.device) -> None:
        held = torch.ones(3, device=device) * 2

        chip.synchronize()
        chip.empty_cache()

        assert held.tolist() == [2, 2, 2]

    def test_device_has_a_name(self, chip: northbridge.Device, device: torch.device) -> None:
        label = chip.label(device.index)

        assert label
        assert label == label.strip()
