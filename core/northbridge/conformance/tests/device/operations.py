"""Operations and their gradients against the CPU's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import northbridge
from northbridge.conformance.suite import shows
from northbridge.conformance.tests.device.one_device import OneDevice
from northbridge.conformance.tests.device.operation import EXACT, Form, Operation, Tolerance, as_it_is, turned
from northbridge.conformance.tests.device.operation_table import OPERATIONS

_OF_TENSORS = [each for each in OPERATIONS if each.name not in ("view", "view_as", "as_strided")]
"""Operations that accept tensors in any memory layout."""

_CURVED = [each for each in OPERATIONS if each.curved]


class ComparedOperations(OneDevice):
    """Operations of a table give the CPU's numbers, and its gradients if differentiable."""

    table: tuple[Operation, ...]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Make a test for each operation of the table; pytest calls it for each function of the class."""
        if "gradient" in metafunc.fixturenames:
            values = [(each, "autograd" if each.differentiable else "") for each in self.table]
            metafunc.parametrize(("operation", "gradient"), values, ids=[str(each) for each in self.table])

    @shows("float32", "{gradient}")
    def test_an_operation_and_its_gradient_are_near_the_cpus(
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
    def test_the_gradient_of_its_gradient_is_near_the_cpus(
        self, backend: str, device: torch.device, operation: Operation
    ) -> None:
        once = operation.gradients_within
        within = allow(backend, Tolerance(10 * once.relative, 10 * once.absolute))

        assert_near(compute_curve(operation, device), compute_curve(operation, "cpu"), device, within)

    @pytest.mark.parametrize("operation", _OF_TENSORS, ids=[str(each) for each in _OF_TENSORS])
    @shows("float32")
    def test_what_lies_otherwise_in_memory_is_read_alike(
        self, backend: str, device: torch.device, operation: Operation
    ) -> None:
        assert_like_the_cpu(backend, device, operation, turned)


def allow(backend: str, within: Tolerance) -> Tolerance:
    """Return the tolerance against the CPU: ``within`` for a real chip, none for a simulated one."""
    return EXACT if northbridge.get(backend).capabilities.simulated else within


def assert_like_the_cpu(
    backend: str, device: torch.device, operation: Operation, form: Form = as_it_is
) -> list[Tensor]:
    """Compare ``operation`` and its gradients on ``device`` with the CPU's; return the CPU's gradients.

    ``form`` lays out the operation's arguments.
    """
    within = allow(backend, operation.within)
    expected, slopes = compute(operation, torch.device("cpu"), form)

    found, found_slopes = compute(operation, device, form)

    assert_near(found, expected, device, within)
    assert_near(found_slopes, slopes, device, allow(backend, operation.gradients_within))
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


def compute_curve(operation: Operation, device: torch.device | str) -> list[Tensor]:
    """Return the second gradients of ``operation``, for random output gradients of both passes."""
    arguments, keywords, leaves = operation.draw(device)
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


def assert_near(found: Sequence[Any], expected: Sequence[Any], device: torch.device, within: Tolerance) -> None:
    """Check that each tensor of ``found`` is on ``device``, and equals that of ``expected`` ``within`` the tolerance.

    Raises :class:`AssertionError` with the difference.
    """
    assert len(found) == len(expected)
    for mine, cpus in zip(found, expected, strict=True):
        if not isinstance(cpus, Tensor):
            assert type(mine) is type(cpus)
            assert mine == pytest.approx(cpus, rel=within.relative, abs=within.absolute)
            continue
        assert mine.device == device
        assert mine.dtype == cpus.dtype
        torch.testing.assert_close(mine.cpu(), cpus, rtol=within.relative, atol=within.absolute, equal_nan=True)
