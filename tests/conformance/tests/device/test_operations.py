"""Operations: what they are given and call, their comparison with the CPU's, and the table of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
import torch
from torch import Tensor

import northbridge
from northbridge_conformance.tests.device.operation import (
    EXACT,
    ROUNDED,
    SUMMED,
    Operation,
    Tolerance,
    definite,
    flags,
    floats,
    given,
    keep_ten_bits,
    shuffled,
    signs,
    whole,
)
from northbridge_conformance.tests.device.operation_table import OPERATIONS
from northbridge_conformance.tests.device.operations import allow_for_claims, assert_near, compute, leaves_of


def draw(*arguments: Any, name: str = "add", differentiable: bool = True) -> tuple[list[Any], list[Tensor]]:
    operation = Operation(name, arguments, differentiable=differentiable)
    found, _, leaves = operation.draw("cpu")
    return found, leaves


def test_the_same_operation_is_given_the_same_numbers_each_time() -> None:
    (first,), _ = draw(floats(3))
    (again,), _ = draw(floats(3))
    (other,), _ = draw(floats(3), name="sub")

    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


def test_what_was_drawn_before_leaves_the_process_as_it_was() -> None:
    state = torch.get_rng_state()

    draw(floats(3), whole(3), flags(3), shuffled(3), definite(3), signs(3))

    assert torch.equal(torch.get_rng_state(), state)


def test_gradients_are_taken_of_floats_alone() -> None:
    found, leaves = draw(floats(2), whole(2), flags(2), signs(2), [floats(1)], (given([0.5]),))

    assert [leaf.tolist() for leaf in leaves] == [found[0].tolist(), found[4][0].tolist(), found[5][0].tolist()]
    assert all(leaf.requires_grad for leaf in leaves)


def test_operation_without_a_gradient_wants_none() -> None:
    (found,), leaves = draw(floats(2), differentiable=False)

    assert leaves == []
    assert not found.requires_grad


def test_numbers_and_slices_are_given_as_they_are() -> None:
    found, _ = draw(3, (slice(1, 2), None), "ij", [1, 2])

    assert found == [3, (slice(1, 2), None), "ij", [1, 2]]


def test_a_definite_matrix_has_positive_eigenvalues() -> None:
    (found,), _ = draw(definite(4))

    assert torch.linalg.eigvalsh(found.detach()).min() > 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [("add", torch.add), ("nn.functional.gelu", torch.nn.functional.gelu), ("view", Tensor.view)],
)
def test_a_name_means_torchs_function_or_the_tensors_method(name: str, expected: object) -> None:
    assert Operation(name, ()).function is expected


def test_a_name_may_mean_an_attribute_of_the_tensor() -> None:
    assert Operation("T", ()).function(torch.tensor([[1, 2]])).tolist() == [[1], [2]]


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


@pytest.fixture
def claim(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have the simulated chip, which need not be loaded, claim something else."""

    def claim(**claims: Any) -> None:
        present = northbridge.Capabilities(**claims)
        device = northbridge.get("cpu_sim").device
        monkeypatch.setattr(device, "capabilities", lambda _claimed: present, raising=False)

    return claim


@pytest.mark.parametrize(
    ("ten_bits", "within", "least"), [(True, SUMMED, 1e-3), (True, ROUNDED, 0), (False, SUMMED, 0)]
)
def test_allowance_is_for_chips_with_ten_bits(
    claim: Callable[..., None], ten_bits: bool, within: Tolerance, least: float
) -> None:
    product = Operation("mm", (floats(3, 9), floats(9, 4)))
    claim(float32_products=northbridge.no("it reads ten bits") if ten_bits else northbridge.yes)
    expected, _ = compute(product, CPU)

    (more,) = allow_for_claims("cpu_sim", within, expected, lambda read: compute(product, CPU, read)[0])

    assert least <= more < 0.2
    assert bool(more) == bool(least)


@pytest.mark.parametrize("bound", [1e-4, 1e-2])
def test_allowance_follows_the_bound_of_a_loosened_operator(claim: Callable[..., None], bound: float) -> None:
    """It is for results and gradients of what calls the operator, in place too, and for nothing else."""
    claim(operators={"tanh": northbridge.Within(bound, "its table is short"), "lstm": northbridge.no("it has no cell")})

    def allowed(function: Callable[[Tensor], Tensor]) -> list[float]:
        called = Operation("called", (floats(3, 9),), call=function)
        expected = list(chain(*compute(called, CPU)))
        return allow_for_claims("cpu_sim", ROUNDED, expected, lambda read: list(chain(*compute(called, CPU, read))))

    for calls in (lambda given: given.tanh() * 2, lambda given: (given * 1).tanh_() * 2):
        result, slope = allowed(calls)
        assert 8 * bound < result < 40 * bound
        assert slope > 0
    assert allowed(lambda given: given.sigmoid()) == [0, 0]


def test_ten_bits_are_kept_of_float32_alone() -> None:
    given = torch.tensor([1 + 2**-10 + 2**-11, -1 - 2**-11, float("inf")])

    assert keep_ten_bits(given).tolist() == [1 + 2**-10, -1, float("inf")]
    assert keep_ten_bits(given.double()).equal(given.double())


def test_piecewise_constant_operation_has_no_gradients() -> None:
    results, slopes = compute(Operation("eq", (whole(3), whole(3)), differentiable=False), CPU)

    assert results[0].dtype == torch.bool
    assert slopes == []


NAMES = [operation.name for operation in OPERATIONS]


def test_each_is_there_once_within_a_hundredth_of_the_cpu() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 150
    assert max(operation.within.relative for operation in OPERATIONS) <= 0.01
    assert max(operation.within.absolute for operation in OPERATIONS) <= 0.01


def test_what_only_moves_numbers_is_allowed_no_difference() -> None:
    exact = {operation.name for operation in OPERATIONS if operation.within == EXACT}

    assert {"cat", "transpose", "sort", "argmax", "eq", "where"} <= exact
