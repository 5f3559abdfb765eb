"""What becomes of results in a dtype that the chip denies; and operations, as they are drawn and compared."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any

import pytest
import torch
from tests.faults.wrong_backends import try_backend
from torch import Tensor

import northbridge
from northbridge_conformance.tests.device.dtypes import warned_of_where_denied
from northbridge_conformance.tests.device.one_device import reject_without, rejected_where_denied
from northbridge_conformance.tests.device.operation import (
    EXACT,
    ROUNDED,
    SUMMED,
    Operation,
    Tolerance,
    flags,
    floats,
    given,
    keep_ten_bits,
    signs,
    whole,
)
from northbridge_conformance.tests.device.operation_table import OPERATIONS
from northbridge_conformance.tests.device.operations import allow_for_claims, assert_near, compute, leaves_of
from northbridge_conformance.verdict import Verdict

DENIED = northbridge.no("it has no room")


def claim(monkeypatch: pytest.MonkeyPatch, **claims: Any) -> None:
    """Let the simulated chip claim this and nothing else."""
    claimed, device = northbridge.Capabilities(**claims), northbridge.get("cpu_sim").device
    monkeypatch.setattr(device, "capabilities", lambda _claimed: claimed, raising=False)


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> str:
    """A backend that denies one dtype, claims another, and says nothing of a third."""
    claim(monkeypatch, float64=DENIED, float16=northbridge.yes)
    return "cpu_sim"


@pytest.mark.parametrize(
    ("error", "words"),
    [(AssertionError("1 is not 2"), "its results differ"), (RuntimeError("no such kernel"), "no such kernel; ")],
    ids=["wrong results", "the vendor's error"],
)
def test_result_of_a_denied_dtype_is_a_refusal(backend: str, error: Exception, words: str) -> None:
    """Right results raise nothing, and neither are those of other dtypes refused."""
    told = rf"denies float64 \(it has no room\).*{words}"

    with pytest.raises(northbridge.UnsupportedError, match=told) as caught, rejected_where_denied(backend, "float64"):
        raise error

    assert (caught.value.capability, caught.value.__cause__) == ("float64", error)
    with rejected_where_denied(backend, "float64"):
        computed = True
    assert computed
    for other in ("float16", "int64"):
        with pytest.raises(type(error), match=str(error)), rejected_where_denied(backend, other):
            raise error


def test_argument_of_a_denied_dtype_is_refused(backend: str) -> None:
    for other in ("float16", "int64"):
        reject_without(backend, other)
    with pytest.raises(northbridge.UnsupportedError, match=r"denies float64 \(it has no room\)") as error:
        reject_without(backend, "float64")

    assert error.value.capability == "float64"


def test_a_machine_with_one_device_forbids_no_test_of_one() -> None:
    asked = tuple(f"C1/{name}/" for name in ("Placement", "RandomNumbers", "Memory", "SavedTensors"))

    found = try_backend("cpu_sim", "C1", asked, {**os.environ, "NORTHBRIDGE_CPU_SIM_DEVICES": "1"})

    assert len(found) > 50
    assert [result.id for result in found if result.verdict is not Verdict.PASS] == []


def warned() -> AbstractContextManager[None]:
    return warned_of_where_denied("cpu_sim", "bfloat16", "bfloat16_range")


@pytest.mark.parametrize(
    ("simulated", "told"),
    [(False, r"\(it has no room\), and its results differ"), (True, r"denies bfloat16_range \(it has no room\)")],
)
def test_chip_refuses_a_denied_range(monkeypatch: pytest.MonkeyPatch, simulated: bool, told: str) -> None:
    """A simulated one is not even asked; a real one that computes what it denies gets through."""
    claim(monkeypatch, simulated=simulated, bfloat16=northbridge.yes, bfloat16_range=DENIED)

    with pytest.raises(northbridge.UnsupportedError, match=told), warned():
        raise AssertionError("inf is not 2^100")

    if not simulated:
        with warned():
            computed = True
        assert computed


@pytest.mark.parametrize("simulated", [False, True])
@pytest.mark.parametrize("answer", [northbridge.yes, northbridge.unknown], ids=["claimed", "unknown"])
def test_wrong_results_of_what_is_not_denied_stay_wrong(
    monkeypatch: pytest.MonkeyPatch, simulated: bool, answer: northbridge.Claim
) -> None:
    claim(monkeypatch, simulated=simulated, bfloat16=northbridge.yes, bfloat16_range=answer)

    with pytest.raises(AssertionError, match="inf is not"), warned():
        raise AssertionError("inf is not 2^100")


CPU, ONE = torch.device("cpu"), torch.ones(2)
OFF = torch.nextafter(ONE, torch.full((2,), 2.0))


def draw(*arguments: Any, name: str = "add", differentiable: bool = True) -> tuple[list[Any], list[Tensor]]:
    found, _, leaves = Operation(name, arguments, differentiable=differentiable).draw("cpu")
    return found, leaves


def test_the_same_operation_is_given_the_same_numbers_each_time() -> None:
    state = torch.get_rng_state()
    first, again, other = (draw(floats(3), name=name)[0][0].tolist() for name in ("add", "add", "sub"))

    assert first == again != other
    assert torch.equal(torch.get_rng_state(), state)


def test_gradients_are_taken_of_floats_alone() -> None:
    found, leaves = draw(floats(2), whole(2), flags(2), signs(2), [floats(1)], (given([0.5]),), 3)

    assert [leaf.tolist() for leaf in leaves] == [found[0].tolist(), found[4][0].tolist(), found[5][0].tolist()]
    assert all(leaf.requires_grad for leaf in leaves)
    assert found[6] == 3
    assert draw(floats(2), differentiable=False)[1] == []
    results, slopes = compute(Operation("mul", (floats(3), floats(3))), CPU)
    assert (len(results), results[0].requires_grad, len(slopes)) == (1, False, 2)


def test_a_name_means_torchs_function_or_the_tensors_member() -> None:
    gelu = torch.nn.functional.gelu
    assert [Operation(name, ()).function for name in ("nn.functional.gelu", "view")] == [gelu, Tensor.view]
    assert Operation("T", ()).function(torch.tensor([[1, 2]])).tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("found", "expected", "told"),
    [
        ([OFF], [ONE], "not equal"),
        ([ONE.double()], [ONE], "float64"),
        ([ONE.to("meta")], [ONE], "meta"),
        ([torch.ones(1, 2)], [ONE], "shape"),
        *(([*found], [ONE], "") for found in ([], [ONE, ONE])),
        ([4], [3], ""),
        ([True], [1], ""),
    ],
)
def test_a_difference_is_told(found: list[Any], expected: list[Any], told: str) -> None:
    with pytest.raises(AssertionError) as error:
        assert_near(found, expected, CPU, EXACT)

    assert told in str(error.value)


def test_near_results_are_accepted() -> None:
    """Within a tolerance the last digit may differ, and what is not a number is equal to itself."""
    nan = torch.tensor([float("nan")])
    assert_near([ONE, 3, nan], [ONE.clone(), 3, nan.clone()], CPU, EXACT)
    assert_near([OFF], [ONE], CPU, ROUNDED)
    values, indices = torch.tensor([3.0, 1.0]).sort()
    assert leaves_of(((values, [indices]), 5)) == [values, indices, 5]


@pytest.mark.parametrize(
    ("ten_bits", "within", "least"), [(True, SUMMED, 1e-3), (True, ROUNDED, 0), (False, SUMMED, 0)]
)
def test_allowance_is_for_chips_with_ten_bits(
    monkeypatch: pytest.MonkeyPatch, ten_bits: bool, within: Tolerance, least: float
) -> None:
    product = Operation("mm", (floats(3, 9), floats(9, 4)))
    claim(monkeypatch, float32_products=northbridge.no("it reads ten bits") if ten_bits else northbridge.yes)
    expected, _ = compute(product, CPU)

    (more,) = allow_for_claims("cpu_sim", within, expected, lambda read: compute(product, CPU, read)[0])

    assert least <= more < 0.2
    assert bool(more) == bool(least)


@pytest.mark.parametrize("bound", [1e-4, 1e-2])
def test_allowance_follows_the_bound_of_a_loosened_operator(monkeypatch: pytest.MonkeyPatch, bound: float) -> None:
    """It is for results and gradients of what calls the operator, in place too, and for nothing else."""
    claim(
        monkeypatch,
        operators={"tanh": northbridge.Within(bound, "its table is short"), "lstm": northbridge.no("it has no cell")},
    )

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


def test_each_is_there_once_within_a_hundredth_of_the_cpu() -> None:
    """What only moves numbers is allowed no difference."""
    names = [operation.name for operation in OPERATIONS]
    exact = {operation.name for operation in OPERATIONS if operation.within == EXACT}

    assert len(set(names)) == len(names) >= 150
    assert max(max(each.within.relative, each.within.absolute) for each in OPERATIONS) <= 0.01
    assert {"cat", "transpose", "sort", "argmax", "eq", "where"} <= exact
