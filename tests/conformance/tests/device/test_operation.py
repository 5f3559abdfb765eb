"""One operation: what it is given, and what it calls."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from northbridge_conformance.tests.device.operation import (
    Operation,
    definite,
    flags,
    floats,
    given,
    shuffled,
    signs,
    whole,
)


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
