"""Views: tensors that share the memory of another tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.runs.comparison import address_of
from northbridge_conformance.tests.device.one_device import OneDevice, gradient_of

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
        numbers = torch.arange(24.0)[: WAYS[way](whole).numel()].view(WAYS[way](whole).shape)

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
