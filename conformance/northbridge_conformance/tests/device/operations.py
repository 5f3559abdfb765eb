"""Operations and their gradients against the CPU's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor

import northbridge
from northbridge.capabilities import Within
from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.suite import shows
from northbridge_conformance.tests.device.claimed_operators import MovedResults
from northbridge_conformance.tests.device.one_device import OneDevice
from northbridge_conformance.tests.device.operation import (
    CONVOLVED,
    EXACT,
    SUMMED,
    Form,
    Operation,
    Tolerance,
    as_it_is,
    keep_ten_bits,
    turned,
)
from northbridge_conformance.tests.device.operation_table import OPERATIONS

_OF_TENSORS = [each for each in OPERATIONS if each.name not in ("view", "view_as", "as_strided")]
"""Operations that accept tensors in any memory layout."""

_CURVED = [each for each in OPERATIONS if each.curved]


class ComparedOperations(OneDevice):
    """Operations of a table give the CPU's numbers, and its gradients if differentiable."""

    table: tuple[Operation, ...]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test for each operation of the table; pytest calls it for each function of the class."""
        super().pytest_generate_tests(metafunc)
        if "gradient" in metafunc.fixturenames:
            values = [(each, "autograd" if each.differentiable else "") for each in self.table]
            metafunc.parametrize(("operation", "gradient"), values, ids=[str(each) for each in self.table])

    @shows("float32", "{gradient}")
    def test_result_and_gradient_match_the_cpu(
        self, backend: str, device: torch.device, operation: Operation, gradient: str
    ) -> None:
        slopes = assert_like_the_cpu(backend, device, operation)

        assert bool(slopes) == bool(gradient)


class Operations(ComparedOperations):
    """Each operation gives the CPU's numbers, in the CPU's dtype and on the chip, and so does its gradient."""

    table: tuple[Operation, ...] = OPERATIONS
    advice = (
        "The operation is a kernel of your torch plugin: run it alone on the chip and on the CPU. If the numbers are"
        " close but not close enough, look for a mode that computes float32 in fewer bits."
    )

    @pytest.mark.parametrize("operation", _CURVED, ids=[str(each) for each in _CURVED])
    @shows("autograd")
    def test_second_order_gradient_matches_the_cpu(
        self, backend: str, device: torch.device, operation: Operation
    ) -> None:
        once = operation.gradients_within
        within = allow(backend, Tolerance(10 * once.relative, 10 * once.absolute))

        expected = compute_curve(operation, "cpu")
        more = allow_for_claims(backend, within, expected, partial(compute_curve, operation, "cpu"))
        assert_near(compute_curve(operation, device), expected, device, within, more)

    @pytest.mark.parametrize("operation", _OF_TENSORS, ids=[str(each) for each in _OF_TENSORS])
    @shows("float32")
    def test_strided_inputs_give_the_same_result(
        self, backend: str, device: torch.device, operation: Operation
    ) -> None:
        assert_like_the_cpu(backend, device, operation, turned)


def allow(backend: str, within: Tolerance) -> Tolerance:
    """Return the tolerance against the CPU: ``within``, but none for a simulated chip with the CPU's kernels."""
    return EXACT if northbridge.get(backend).capabilities.exact else within


_OF_CONVOLUTIONS = (CONVOLVED.relative, 10 * CONVOLVED.relative)
"""The relative tolerances of convolutions alone: of results, and of gradients of the second order."""


def allow_for_claims(
    backend: str, within: Tolerance, expected: Sequence[Any], compute: Callable[[Form], Sequence[Any]]
) -> list[float]:
    """Return how much further each result may be off on a chip that loosens operators, or reads ten bits of factors.

    It is derived from what the test computes: eight times the distance by which the CPU's results move if each result
    of a loosened operator moves by its bound. On a chip that denies ``float32_products`` the arguments keep ten bits
    instead, and the error of two coarse factors in the largest result is added; numbers in between lose bits too.
    There, operations that add up no products have no allowance. Convolutions have it wherever the chip does not claim
    ``float32_convolutions``: torch lets CUDA read ten bits. ``compute`` is given how to read the arguments.
    """
    allowed = [0.0] * len(expected)
    claimed = northbridge.get(backend).present_capabilities()
    if any(isinstance(claim, Within) for claim in claimed.operators.values()):
        with MovedResults(claimed.operators):
            allowed = _distances(compute(as_it_is), expected)
    convolves = within.relative in _OF_CONVOLUTIONS and claimed.float32_convolutions.answer != "yes"
    if convolves or (claimed.float32_products.denied and within.relative >= SUMMED.relative):
        coarse = _distances(compute(keep_ten_bits), expected, 2**-9)
        allowed = [each + more for each, more in zip(allowed, coarse, strict=True)]
    return allowed


def _distances(found: Sequence[Any], expected: Sequence[Any], of_the_largest: float = 0.0) -> list[float]:
    """Return eight times the largest distance of each tensor, plus a part ``of_the_largest`` number expected."""
    return [
        8 * _largest(mine - cpus) + of_the_largest * _largest(cpus)
        if isinstance(cpus, Tensor) and cpus.is_floating_point() and cpus.shape == mine.shape
        else 0.0
        for mine, cpus in zip(found, expected, strict=True)
    ]


def reads_ten_bits(backend: str) -> bool:
    """True if the chip denies ``float32_products``."""
    return northbridge.get(backend).present_capabilities().float32_products.denied


def _largest(numbers: Tensor) -> float:
    finite = numbers[numbers.isfinite()].abs()
    return finite.max().item() if finite.numel() else 0.0


def assert_like_the_cpu(
    backend: str, device: torch.device, operation: Operation, form: Form = as_it_is
) -> list[Tensor]:
    """Compare ``operation`` and its gradients on ``device`` with the CPU's; return the CPU's gradients.

    ``form`` lays out the operation's arguments.
    """
    within = allow(backend, operation.within)
    expected, slopes = compute(operation, torch.device("cpu"), form)

    found, found_slopes = compute(operation, device, form)

    more = allow_for_claims(
        backend,
        within,
        [*expected, *slopes],
        lambda read: list(chain(*compute(operation, "cpu", lambda given: form(read(given))))),
    )
    assert_near(found, expected, device, within, more[: len(expected)])
    assert_near(found_slopes, slopes, device, allow(backend, operation.gradients_within), more[len(expected) :])
    return slopes


def compute(operation: Operation, device: torch.device | str, form: Form = as_it_is) -> tuple[list[Any], list[Tensor]]:
    """Return the results of ``operation`` on ``device``, and its arguments' gradients for random output gradients.

    The gradients are empty if no result is differentiable.
    """
    arguments, keywords, leaves = operation.draw(device, form)
    results = leaves_of(operation.function(*arguments, **keywords))
    outputs = [each for each in results if isinstance(each, Tensor) and each.requires_grad]
    if not outputs:
        return results, []
    generator = torch.Generator().manual_seed(1)
    slopes = [torch.randn(each.shape, generator=generator, dtype=each.dtype).to(device) for each in outputs]
    found = torch.autograd.grad(outputs, leaves, slopes, allow_unused=True, materialize_grads=True)
    return [each.detach() if isinstance(each, Tensor) else each for each in results], list(found)


def compute_curve(operation: Operation, device: torch.device | str, form: Form = as_it_is) -> list[Tensor]:
    """Return the second gradients of ``operation``, for random output gradients of both passes."""
    arguments, keywords, leaves = operation.draw(device, form)
    outputs = leaves_of(operation.function(*arguments, **keywords))
    generator = torch.Generator().manual_seed(1)

    def draw(results: Sequence[Tensor]) -> list[Tensor]:
        return [torch.randn(each.shape, generator=generator).to(device) for each in results]

    given: Any = {"allow_unused": True, "materialize_grads": True}
    slopes = torch.autograd.grad(outputs, leaves, draw(outputs), create_graph=True, **given)
    bent = [each for each in slopes if each.requires_grad]
    return list(torch.autograd.grad(bent, leaves, draw(bent), **given))


def leaves_of(result: Any) -> list[Any]:
    """Return the leaves of an operation's nested result, tensors and other values, in order."""
    if isinstance(result, (tuple, list)):
        return [leaf for each in result for leaf in leaves_of(each)]
    return [result]


def assert_near(
    found: Sequence[Any],
    expected: Sequence[Any],
    device: torch.device,
    within: Tolerance,
    more: Sequence[float] = (),
) -> None:
    """Check that each tensor of ``found`` is on ``device``, and equals that of ``expected`` ``within`` the tolerance.

    ``more`` is added to the tolerance, a number for each tensor. Raises :class:`AssertionError` with the difference.
    """
    assert len(found) == len(expected)
    for mine, cpus, slack in zip(found, expected, more or [0.0] * len(found), strict=True):
        absolute = within.absolute + slack
        if not isinstance(cpus, Tensor):
            assert type(mine) is type(cpus)
            assert mine == pytest.approx(cpus, rel=within.relative, abs=absolute)
            continue
        assert mine.device == device
        assert mine.dtype == cpus.dtype
        torch.testing.assert_close(mine.cpu(), cpus, rtol=within.relative, atol=absolute, equal_nan=True)
