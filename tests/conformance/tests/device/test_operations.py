"""Comparison of an operation's results with the CPU's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from northbridge_conformance.tests.device import operations
from northbridge_conformance.tests.device.operation import (
    EXACT,
    ROUNDED,
    SUMMED,
    Operation,
    Tolerance,
    floats,
    keep_ten_bits,
    whole,
)
from northbridge_conformance.tests.device.operations import allow_for_products, assert_near, compute, leaves_of

CPU = torch.device("cpu")
ONE = torch.ones(2)


def differs(found: Any, expected: Any, within: Any = EXACT) -> str:
    with pytest.raises(AssertionError) as error:
        assert_near(found, expected, CPU, within)
    return str(error.value)


def test_equal_results_are_near() -> None:
    assert_near([ONE, 3, torch.tensor([float("nan")])], [ONE.clone(), 3, torch.tensor([float("nan")])], CPU, EXACT)


def test_the_last_digit_is_a_difference_where_none_is_allowed() -> None:
    off = torch.nextafter(ONE, torch.full((2,), 2.0))

    assert "not equal" in differs([off], [ONE])
    assert_near([off], [ONE], CPU, ROUNDED)


@pytest.mark.parametrize(
    ("found", "told"), [(ONE.double(), "float64"), (ONE.to("meta"), "meta"), (torch.ones(1, 2), "shape")]
)
def test_another_dtype_device_or_shape_is_a_difference(found: torch.Tensor, told: str) -> None:
    assert told in differs([found], [ONE])


def test_a_result_too_few_or_too_many_is_a_difference() -> None:
    differs([], [ONE])
    differs([ONE, ONE], [ONE])


def test_another_number_or_type_of_number_is_a_difference() -> None:
    differs([4], [3])
    differs([True], [1])


def test_results_within_results_are_found() -> None:
    values, indices = torch.tensor([3.0, 1.0]).sort()

    assert leaves_of(((values, [indices]), 5)) == [values, indices, 5]


def test_gradients_are_those_of_every_float() -> None:
    results, slopes = compute(Operation("mul", (floats(3), floats(3))), CPU)

    assert len(results) == 1
    assert not results[0].requires_grad
    assert len(slopes) == 2


@pytest.mark.parametrize(
    ("ten_bits", "within", "least"), [(True, SUMMED, 1e-3), (True, ROUNDED, 0), (False, SUMMED, 0)]
)
def test_allowance_is_for_chips_with_ten_bits(
    monkeypatch: pytest.MonkeyPatch, ten_bits: bool, within: Tolerance, least: float
) -> None:
    product = Operation("mm", (floats(3, 9), floats(9, 4)))
    monkeypatch.setattr(operations, "reads_ten_bits", lambda _: ten_bits)
    expected, _ = compute(product, CPU)

    (more,) = allow_for_products("acme", within, expected, lambda: compute(product, CPU, keep_ten_bits)[0])

    assert least <= more < 0.2
    assert bool(more) == bool(least)


def test_ten_bits_are_kept_of_float32_alone() -> None:
    given = torch.tensor([1 + 2**-10 + 2**-11, -1 - 2**-11, float("inf")])

    assert keep_ten_bits(given).tolist() == [1 + 2**-10, -1, float("inf")]
    assert keep_ten_bits(given.double()).equal(given.double())


def test_piecewise_constant_operation_has_no_gradients() -> None:
    results, slopes = compute(Operation("eq", (whole(3), whole(3)), differentiable=False), CPU)

    assert results[0].dtype == torch.bool
    assert slopes == []
