"""Tensors on one device, views of them, and tensors in files, in pickles and in copies."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

import northbridge
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.runs.comparison import address_of
from northbridge_conformance.tests.device.one_device import OneDevice, gradient_of

DTYPES = ("int32", "int16", "int8", "uint8", "bool")
"""The dtypes without a claim; Dtypes tests the others."""


class DeviceTests(OneDevice):
    """Tensors on a device behave as a user of torch expects."""

    advice = (
        "These are operators and copies of your torch plugin, run through torch alone: Northbridge adds nothing to"
        " them. `northbridge doctor NAME` says which functions your torch module lacks."
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
        with pytest.raises((TypeError, RuntimeError)):  # the latter is torch's for subclasses of tensors
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


WAYS: Mapping[str, Callable[[Tensor], Tensor]] = MappingProxyType(
    {
        "a row": lambda whole: whole[1],
        "a column": lambda whole: whole[:, 2],
        "every second": lambda whole: whole[:, ::2],
        "transposed": lambda whole: whole.transpose(0, 1),
        "permuted": lambda whole: whole.view(2, 2, 6).permute(2, 0, 1),
        "another shape": lambda whole: whole.view(6, 4),
        "expanded": lambda whole: whole[:, :1].expand(4, 3),
        "diagonal": lambda whole: whole.diagonal(1),
        "unfolded": lambda whole: whole.unfold(1, 3, 2),
        "strided": lambda whole: whole.as_strided((3, 3), (5, 2), 1),
        "narrow": lambda whole: whole.narrow(1, 1, 3),
        "a part": lambda whole: whole.chunk(2)[1].chunk(2, 1)[1],
    }
)
"""The ways to view a tensor of 4 rows and 6 columns."""


class Views(OneDevice):
    """Views share memory with their base, whatever their strides and offsets."""

    claims: tuple[str, ...] = ("views",)
    advice = (
        "Your torch plugin's copies and kernels have to honour strides and storage offsets: look at its copy between"
        " device and host, and at as_strided and view, for tensors that are not contiguous."
    )

    @pytest.mark.parametrize("way", WAYS)
    def test_view_copies_to_the_device_and_back(self, device: torch.device, way: str) -> None:
        whole = torch.arange(24.0).view(4, 6)

        assert torch.equal(WAYS[way](whole.to(device)).cpu(), WAYS[way](whole))
        assert torch.equal(WAYS[way](whole).to(device).cpu(), WAYS[way](whole))

    @pytest.mark.parametrize("way", WAYS)
    def test_operations_on_a_view_match_the_cpu(self, device: torch.device, way: str) -> None:
        whole = torch.arange(24.0).view(4, 6)
        here, there = WAYS[way](whole), WAYS[way](whole.to(device))

        assert torch.equal((there * 2 + 1).cpu(), here * 2 + 1)
        assert torch.equal((there + there.contiguous()).cpu(), here * 2)
        assert torch.equal(there.sum(0).cpu(), here.sum(0))
        assert torch.equal(there.contiguous().cpu(), here)

    @pytest.mark.parametrize("way", WAYS)
    def test_view_shares_memory_with_its_base(self, device: torch.device, way: str) -> None:
        whole = torch.zeros(4, 6)
        there = whole.to(device)

        if way == "expanded":  # several of its elements share memory, so torch refuses to write to them
            there[2].fill_(5)
            assert WAYS[way](there)[2].tolist() == [5, 5, 5]
            return
        WAYS[way](whole).fill_(5)
        view = WAYS[way](there)
        view.fill_(5)

        assert torch.equal(there.cpu(), whole)
        assert address_of(view) == address_of(there)

    @pytest.mark.parametrize("way", [way for way in WAYS if way != "expanded"])
    def test_copy_into_a_view(self, device: torch.device, way: str) -> None:
        whole = torch.zeros(4, 6)
        there = whole.to(device)
        # Elements that share memory get the same number: torch does not say in which order they are written.
        numbers = WAYS[way](torch.arange(24.0).view(4, 6)).contiguous()

        WAYS[way](whole).copy_(numbers)
        WAYS[way](there).copy_(numbers)  # from the host

        assert torch.equal(there.cpu(), whole)
        there.zero_()
        WAYS[way](there).copy_(numbers.to(device))
        assert torch.equal(there.cpu(), whole)

    def test_a_view_outlives_its_base(self, device: torch.device) -> None:
        whole = torch.arange(6.0, device=device)
        view = whole[2:]

        del whole
        _filler = torch.zeros(6, device=device)

        assert view.tolist() == [2, 3, 4, 5]

    def test_a_view_of_another_dtype_reads_the_same_bits(self, device: torch.device) -> None:
        numbers = torch.tensor([1.0, -2.0], device=device)

        assert numbers.view(torch.int32).tolist() == [0x3F800000, -0x40000000]

    def test_gradient_of_a_view_reaches_its_base(self, device: torch.device) -> None:
        whole = torch.ones(2, 3, device=device, requires_grad=True)

        torch.autograd.backward((whole.t()[1] * torch.tensor([2.0, 5.0], device=device)).sum())

        assert gradient_of(whole).tolist() == [[0, 2, 0], [0, 5, 0]]


class SavedTensors(OneDevice):
    """A tensor saved on the chip opens there, on the CPU and on another device, unchanged."""

    advice = (
        "torch.load asks torch.<type> for what it needs to open a file on the chip; tensors without a storage of their"
        " own kind are pickled through the CPU. Both belong to your torch plugin."
    )

    @pytest.mark.parametrize("where", ["cpu", "chip", "nowhere", "function"])
    def test_saved_tensor_loads_with_map_location(self, device: torch.device, where: str) -> None:
        ways: dict[str, Any] = {
            "cpu": torch.device("cpu"),
            "chip": device,
            "nowhere": None,
            "function": lambda storage, _location: storage,
        }
        file = io.BytesIO()
        torch.save({"weight": torch.arange(6.0, device=device).view(2, 3).t(), "step": 3}, file)
        file.seek(0)

        found = torch.load(file, map_location=ways[where], weights_only=True)

        on_chip = where in ("chip", "nowhere")
        assert found["weight"].device == (device if on_chip else torch.device("cpu"))
        assert found["weight"].tolist() == [[0, 3], [1, 4], [2, 5]]
        assert found["step"] == 3

    def test_tensor_saved_on_the_cpu_loads_on_the_device(self, device: torch.device) -> None:
        file = io.BytesIO()
        torch.save([torch.arange(3), torch.ones(2, dtype=torch.bfloat16), torch.tensor(True)], file)
        file.seek(0)

        found = torch.load(file, map_location=device, weights_only=True)

        assert [each.device for each in found] == [device] * 3
        assert [each.dtype for each in found] == [torch.int64, torch.bfloat16, torch.bool]
        assert [each.tolist() for each in found] == [[0, 1, 2], [1, 1], True]

    def test_saved_tensor_loads_on_another_device(self, device: torch.device, other: torch.device, alone: bool) -> None:
        file = io.BytesIO()
        torch.save(torch.arange(3.0, device=device), file)
        file.seek(0)

        if alone:
            with pytest.raises((RuntimeError, AssertionError)):  # AssertionError if the vendor's module asserts
                torch.load(file, map_location=other, weights_only=True)
            return
        found = torch.load(file, map_location={str(device): str(other)}, weights_only=True)

        assert found.device == other
        assert found.tolist() == [0, 1, 2]

    def test_loaded_tensors_share_memory_as_saved_ones_did(self, device: torch.device) -> None:
        whole = torch.zeros(4, device=device)
        file = io.BytesIO()
        torch.save([whole, whole[2:]], file)
        file.seek(0)

        found = torch.load(file, map_location=device, weights_only=True)
        found[1].fill_(7)

        assert found[0].tolist() == [0, 0, 7, 7]

    def test_pickle_keeps_tensors_and_parameters(self, device: torch.device) -> None:
        tensor = torch.arange(6.0, device=device).view(2, 3).t()
        parameter = nn.Parameter(torch.ones(2, device=device), requires_grad=False)

        found, copied = pickle.loads(pickle.dumps((tensor, parameter)))

        assert found.device == device
        assert found.tolist() == tensor.tolist()
        assert isinstance(copied, nn.Parameter)
        assert copied.device == device
        assert not copied.requires_grad

    def test_deepcopy_is_independent(self, device: torch.device) -> None:
        original = nn.Parameter(torch.ones(2, device=device))

        copied = copy.deepcopy(original)
        with torch.no_grad():
            copied.zero_()

        assert copied.device == device
        assert isinstance(copied, nn.Parameter)
        assert original.tolist() == [1, 1]

    def test_copied_module_keeps_tied_weights(self, device: torch.device) -> None:
        pair = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).to(device)
        pair[1].weight = pair[0].weight

        mine, copies = list(pair.parameters()), list(copy.deepcopy(pair).parameters())

        assert len(copies) == len(mine) == 3
        assert all(copied is not own for copied, own in zip(copies, mine, strict=True))
        assert [copied.tolist() for copied in copies] == [own.tolist() for own in mine]
