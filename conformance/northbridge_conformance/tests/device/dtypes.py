"""Dtypes that a chip may claim: computations use exactly the dtype of the tensor."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.suite import shows
from northbridge_conformance.tests.device.one_device import OneDevice, rejected_where_denied
from northbridge_conformance.tests.device.operations import reads_ten_bits

FLOATS = ("float32", "float16", "bfloat16", "float64")


class Dtypes(OneDevice):
    """Each claimed dtype rounds, overflows and counts as the CPU's does."""

    advice = (
        "The claims in Capabilities(…) say which dtypes your chip computes in. Where a dtype is kept and computed in"
        " another one, deny it with no(“why”), or correct it in Device.capabilities() where generations differ."
    )

    @pytest.mark.parametrize("dtype", FLOATS)
    @shows("{dtype}")
    def test_arithmetic_rounds_to_the_dtype(self, backend: str, device: torch.device, dtype: str) -> None:
        kind = getattr(torch, dtype)
        generator = torch.Generator().manual_seed(3)
        mine, yours = (torch.rand(64, generator=generator, dtype=torch.float64).add(0.5).to(kind) for _ in range(2))

        with rejected_where_denied(backend, dtype):
            here, there = mine.to(device), yours.to(device)

            assert here.element_size() == mine.element_size()
            for found, expected in (
                (here + there, mine + yours),
                (here - there, mine - yours),
                (here * there, mine * yours),
                (alone(here + there) - there, (mine + yours) - yours),
                (alone(here * 3) + there, mine * 3 + yours),
            ):
                assert found.dtype == kind
                assert torch.equal(found.cpu(), expected)

    @pytest.mark.parametrize("dtype", FLOATS)
    @shows("{dtype}")
    def test_epsilon_is_that_of_the_dtype(self, backend: str, device: torch.device, dtype: str) -> None:
        kind = getattr(torch, dtype)
        step = torch.finfo(kind).eps

        with rejected_where_denied(backend, dtype):
            one = torch.ones(1, dtype=kind, device=device)

            assert (alone(alone(one + step) - one) / step).item() == 1
            assert (alone(one + step / 4) - one).item() == 0
            assert (alone(one * (1 + step)) - one).item() == step

    @pytest.mark.parametrize(
        ("dtype", "claim"), [*zip(FLOATS, ("float32_products", *FLOATS[1:]), strict=True)], ids=FLOATS
    )
    @shows("{claim}")
    def test_matmul_keeps_the_full_precision_of_the_dtype(
        self, backend: str, device: torch.device, dtype: str, claim: str
    ) -> None:
        kind = getattr(torch, dtype)
        step = torch.finfo(kind).eps
        full = 1 + step * torch.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=torch.float64)  # exact in `kind`, in no less
        whole = torch.tensor([[1 / step, 1.0]], dtype=kind)  # the sum is exact
        over = torch.tensor([[2 / step, 1.0]], dtype=kind)  # the sum has one digit too many, and is rounded to even

        with rejected_where_denied(backend, claim):
            ones = torch.ones(2, 1, dtype=kind, device=device)

            same = full.to(kind).to(device) @ torch.eye(2, dtype=kind, device=device)
            assert same.dtype == kind
            assert torch.equal(same.cpu(), full.to(kind))
            assert (whole.to(device) @ ones).item() == 1 / step + 1
            assert (over.to(device) @ ones).item() == 2 / step

    @pytest.mark.parametrize("dtype", FLOATS)
    @shows("{dtype}")
    def test_overflow_begins_beyond_the_largest_number(self, backend: str, device: torch.device, dtype: str) -> None:
        kind = getattr(torch, dtype)
        most = torch.finfo(kind).max

        with rejected_where_denied(backend, dtype):
            largest = torch.full((2,), most, dtype=kind, device=device)

            assert (largest * 1).tolist() == [most, most]
            assert (alone(largest / 2) + alone(largest / 2)).tolist() == [most, most]
            assert (largest * 2).tolist() == [float("inf")] * 2
            assert (alone(largest * 2) / 2).tolist() == [float("inf")] * 2

    @pytest.mark.parametrize("dtype", FLOATS)
    @shows("{dtype}")
    def test_smallest_normal_number_is_not_flushed_to_zero(
        self, backend: str, device: torch.device, dtype: str
    ) -> None:
        kind = getattr(torch, dtype)
        least = torch.finfo(kind).tiny

        with rejected_where_denied(backend, dtype):
            smallest = torch.full((2,), least, dtype=kind, device=device)

            assert (smallest * 1).tolist() == [least, least]
            assert (alone(smallest * 4) / 2).tolist() == [2 * least, 2 * least]
            assert (smallest * smallest).tolist() == [0, 0]

    @shows("float16")
    def test_float16_has_subnormal_numbers(self, backend: str, device: torch.device) -> None:
        least = torch.finfo(torch.float16).smallest_normal

        with rejected_where_denied(backend, "float16"):
            smallest = torch.full((1,), least, dtype=torch.float16, device=device)

            assert (smallest / 4).item() == least / 4
            assert (smallest * 2**-10).item() == 2**-24
            assert (alone(smallest * 2**-10) / 4).item() == 0

    @pytest.mark.parametrize("dtype", FLOATS)
    @shows("{dtype}", "autograd")
    def test_layer_trains_in_the_dtype(self, backend: str, device: torch.device, dtype: str) -> None:
        kind = getattr(torch, dtype)
        torch.manual_seed(0)
        layer, given = nn.Sequential(nn.Linear(7, 5), nn.Tanh(), nn.Linear(5, 3)), torch.randn(4, 7)
        layer = layer.to(kind)
        # Sums in another order are off by about the last digit: 16 times that is allowed.
        within = 16 * (2**-10 if dtype == "float32" and reads_ten_bits(backend) else torch.finfo(kind).eps)

        with rejected_where_denied(backend, dtype):
            moved = copy.deepcopy(layer).to(device)

            expected, found = train(layer, given.to(kind)), train(moved, given.to(kind).to(device))

            for mine, cpus in zip(found, expected, strict=True):
                assert mine.dtype == kind
                assert mine.device == device
                torch.testing.assert_close(mine.cpu(), cpus, rtol=within, atol=within)

    @shows("int64")
    def test_int64_is_exact_beyond_float64_precision(self, backend: str, device: torch.device) -> None:
        with rejected_where_denied(backend, "int64"):
            large = torch.tensor([2**53, 2**62, -(2**53)], device=device)

            assert (large + 1).tolist() == [2**53 + 1, 2**62 + 1, -(2**53) + 1]
            assert (large * 1 - 1).tolist() == [2**53 - 1, 2**62 - 1, -(2**53) - 1]
            assert (large == large + 1).tolist() == [False] * 3
            assert (large < large + 1).tolist() == [True] * 3

    @shows("int64")
    def test_int64_products_are_exact(self, backend: str, device: torch.device) -> None:
        with rejected_where_denied(backend, "int64"):
            factors = torch.tensor([3037000499, -3037000499, 2**31 + 1], device=device)

            assert (factors * factors).tolist() == [3037000499**2, 3037000499**2, (2**31 + 1) ** 2]
            assert (factors * factors // factors).tolist() == [3037000499, -3037000499, 2**31 + 1]

    @shows("int64")
    def test_int64_sums_are_exact(self, backend: str, device: torch.device) -> None:
        with rejected_where_denied(backend, "int64"):
            numbers = torch.tensor([2**60, 1, 2**53, 3], device=device)

            assert numbers.sum().item() == 2**60 + 2**53 + 4
            assert numbers.cumsum(0).tolist() == [2**60, 2**60 + 1, 2**60 + 2**53 + 1, 2**60 + 2**53 + 4]
            assert numbers.sort().values.tolist() == [1, 3, 2**53, 2**60]
            assert numbers.max().item() == 2**60


def alone(tensor: Tensor) -> Tensor:
    """Return ``tensor``, computed by now: a lazy chip may compute two operations as one, and round once."""
    return tensor.cpu().to(tensor.device)


def train(layer: nn.Module, given: Tensor) -> list[Tensor]:
    """Return the output of ``layer`` for ``given``, and its parameters' gradients for the output's mean square."""
    result = layer(given)
    result.square().mean().backward()
    return [result.detach(), *(parameter.grad for parameter in layer.parameters() if parameter.grad is not None)]
