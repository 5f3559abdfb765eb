"""Dtypes that a chip may claim: computations use exactly the dtype of the tensor, whatever the matrix unit takes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import northbridge
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.suite import shows
from northbridge_conformance.tests.device.one_device import (
    OneDevice,
    gradient_of,
    reject_without,
    rejected_where_denied,
)
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


_DIMENSIONS = (1, 2, 3)

LAYERS: Mapping[str, Callable[[], nn.modules.conv._ConvNd]] = {
    "Conv1d": lambda: nn.Conv1d(8, 16, 5, padding=2),
    "Conv2d": lambda: nn.Conv2d(8, 16, 3, padding=1),
    "Conv2d, strided and dilated": lambda: nn.Conv2d(8, 16, 3, stride=2, dilation=2, padding=2),
    "Conv2d, grouped": lambda: nn.Conv2d(16, 16, 3, padding=1, groups=4),
    "Conv3d": lambda: nn.Conv3d(4, 8, 3, padding=1),
    "ConvTranspose1d": lambda: nn.ConvTranspose1d(8, 16, 4, stride=2),
    "ConvTranspose2d": lambda: nn.ConvTranspose2d(8, 16, 3, stride=2),
}

FEW_ROUNDINGS: Any = {"rtol": 2e-6, "atol": 2e-6}
"""The tolerance for float32 convolutions with any transform; TF32 and float16 are off by 5e-4."""

NEAR = 5e-5
"""The tolerance for sums of products, relative to the largest. Measured: 6e-7 in float32, 2e-4 or more in TF32."""

FAR = 2.0**100
"""A bfloat16 number beyond the range of float16; ``1 / FAR`` is below its smallest number."""

SIZES = (3, 130)
"""The numbers of products in a sum: chips have other kernels for more than fit into one tile."""


class MatrixUnit(OneDevice):
    """Products and convolutions use all bits of float32, and bfloat16 has its range, if the chip claims it."""

    advice = (
        "Where your matrix unit takes neither float32 nor bfloat16, its inputs pass through a dtype with fewer bits:"
        " deny float32_products, float32_convolutions or bfloat16_range with no(“why”), so that users are warned. If a"
        " variable of your software decides it, correct the claim in Device.capabilities()."
    )

    @pytest.mark.parametrize("dimensions", _DIMENSIONS)
    @shows("float32_convolutions")
    def test_convolution_keeps_float32_precision(self, backend: str, device: torch.device, dimensions: int) -> None:
        convolve, given, one = _whose_numbers_stay(dimensions)

        with warned_of_where_denied(backend, "float32_convolutions"):
            found = convolve(given.to(device), one.to(device))

            torch.testing.assert_close(found.cpu(), given, **FEW_ROUNDINGS)

    @pytest.mark.parametrize("dimensions", _DIMENSIONS)
    @shows("float32_convolutions", "autograd")
    def test_convolution_gradients_keep_float32_precision(
        self, backend: str, device: torch.device, dimensions: int
    ) -> None:
        convolve, step, one = _whose_numbers_stay(dimensions)
        chosen = torch.zeros_like(step)
        chosen[0, 0].view(-1)[0] = 1.0

        with warned_of_where_denied(backend, "float32_convolutions"):
            given, weight = (each.to(device).requires_grad_() for each in (chosen, one))
            torch.autograd.backward(convolve(given, weight), step.to(device))

            torch.testing.assert_close(gradient_of(given).cpu(), step, **FEW_ROUNDINGS)
            torch.testing.assert_close(
                gradient_of(weight).cpu()[:, 0].view(-1), step[0].view(3, -1)[:, 0], **FEW_ROUNDINGS
            )

    @pytest.mark.parametrize("layer", LAYERS)
    @shows("float32_convolutions", "autograd")
    def test_convolution_layer_computes_in_float32(self, backend: str, device: torch.device, layer: str) -> None:
        torch.manual_seed(5)
        cpus = LAYERS[layer]()
        given = torch.rand(2, cpus.in_channels, *[9] * len(cpus.kernel_size)) * 2 - 1
        mine, exact = copy.deepcopy(cpus).to(device), cpus.double()

        with warned_of_where_denied(backend, "float32_convolutions"):
            for found, doubled in zip(_train(mine, given.to(device)), _train(exact, given.double()), strict=True):
                off = (found.double() - doubled).abs().max().item()

                assert off <= NEAR * doubled.abs().max().item()

    @pytest.mark.parametrize("size", SIZES)
    @shows("float32", "autograd")
    def test_float32_matmul_keeps_tf32_precision_and_range(self, device: torch.device, size: int) -> None:
        ten = 1 + torch.arange(size) / 1024
        same = torch.eye(size, device=device)
        for scale in (1.0, FAR, 1 / FAR):
            given = (ten * scale).expand(size, -1).to(device).requires_grad_()
            found = (given @ same, functional.linear(given, same), torch.bmm(given[None], same[None])[0])
            torch.autograd.backward(found[0], given.detach())
            for each in (*found, gradient_of(given).cpu()):
                assert each.cpu().equal(given.detach().cpu())

    @pytest.mark.parametrize("size", SIZES)
    @shows("float32_products")
    def test_float32_matmul_keeps_float32_precision(self, backend: str, device: torch.device, size: int) -> None:
        given = 1 + torch.rand(size, size, generator=torch.Generator().manual_seed(5))

        with warned_of_where_denied(backend, "float32_products"):
            found = given.to(device) @ torch.eye(size, device=device)

            torch.testing.assert_close(found.cpu(), given, **FEW_ROUNDINGS)

    @pytest.mark.parametrize("size", SIZES)
    @pytest.mark.parametrize("number", [FAR, 1 / FAR, -FAR], ids=["large", "small", "far below zero"])
    @shows("bfloat16", "bfloat16_range")
    def test_bfloat16_matmul_keeps_the_range(
        self, backend: str, device: torch.device, number: float, size: int
    ) -> None:
        with warned_of_where_denied(backend, "bfloat16", "bfloat16_range"):
            given = torch.full((size, size), number, dtype=torch.bfloat16, device=device)
            same = torch.eye(size, dtype=torch.bfloat16, device=device)
            for found in (
                given @ same,
                same @ given,
                torch.bmm(given[None], same[None])[0],
                torch.addmm(torch.zeros_like(same[0]), given, same),
                functional.linear(given, same),
                torch.einsum("ij,jk->ik", given, same),
            ):
                assert found.dtype == torch.bfloat16
                assert found.eq(number).all().item()

    @pytest.mark.parametrize("size", SIZES)
    @shows("bfloat16", "bfloat16_range", "autograd")
    def test_bfloat16_matmul_gradients_keep_the_range(self, backend: str, device: torch.device, size: int) -> None:
        with warned_of_where_denied(backend, "bfloat16", "bfloat16_range"):
            given, same = (torch.eye(size, dtype=torch.bfloat16, device=device).requires_grad_() for _ in range(2))
            torch.autograd.backward(given @ same, torch.full_like(same, FAR))

            assert gradient_of(given).cpu().eq(FAR).all().item()
            assert gradient_of(same).cpu().eq(FAR).all().item()

    @pytest.mark.parametrize("size", SIZES)
    @shows("bfloat16", "bfloat16_range", "autograd")
    def test_autocast_to_bfloat16_keeps_the_range(self, backend: str, device: torch.device, size: int) -> None:
        with warned_of_where_denied(backend, "bfloat16", "bfloat16_range"):
            layer = nn.Linear(size, size, bias=False, device=device)
            with torch.no_grad():
                layer.weight.copy_(torch.eye(size))
            with torch.autocast(device.type, torch.bfloat16):
                found = layer(torch.full((2, size), FAR, device=device))
            found.backward(torch.full((2, size), FAR / 2**20, dtype=found.dtype, device=device))

            assert found.dtype == torch.bfloat16
            assert found.eq(FAR).all().item()
            assert (
                gradient_of(layer.weight).cpu().isinf().all().item()
            )  # 2^180 exceeds bfloat16 too: it must not be clamped


@contextmanager
def warned_of_where_denied(backend: str, *claims: str) -> Iterator[None]:
    """Raise :class:`UnsupportedError` if the chip denies one of ``claims``; Northbridge warns its users of these.

    A simulated chip that computes as the CPU does says nothing about a denial of the real one.
    """
    present = northbridge.get(backend).present_capabilities()
    if present.exact:
        for claim in claims:
            reject_without(backend, claim)
    denied = next((claim for claim in claims if present.claims()[claim].denied), claims[-1])
    with rejected_where_denied(backend, denied):
        yield


def _whose_numbers_stay(dimensions: int) -> tuple[Callable[[Tensor, Tensor], Tensor], Tensor, Tensor]:
    """Return a convolution, inputs around 1.5 with all float32 digits, and a weight that leaves them unchanged."""
    given = 1 + torch.rand(2, 3, *[5] * dimensions, generator=torch.Generator().manual_seed(5))
    return getattr(functional, f"conv{dimensions}d"), given, torch.eye(3).reshape(3, 3, *[1] * dimensions)


def _train(layer: nn.Module, given: Tensor) -> list[Tensor]:
    """Return the output of ``layer`` for ``given``, and the gradients of the output's sum of squares."""
    given = given.requires_grad_()
    result = layer(given)
    result.square().sum().backward()
    return [result.detach().cpu(), gradient_of(given).cpu(), *(gradient_of(each).cpu() for each in layer.parameters())]
