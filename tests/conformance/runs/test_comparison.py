"""Fingerprints of tensors, and in what two runs differ."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

import northbridge
from northbridge import Capabilities, Claim, no, yes
from northbridge_conformance.runs.comparison import (
    MOST_NUMBERS,
    TOLERANCES,
    Fingerprint,
    differences_from_cpu,
    find_differences,
    fingerprint,
    tolerance,
)
from northbridge_conformance.runs.hosts import build
from northbridge_conformance.runs.models import adam, loader
from northbridge_conformance.suite import MODELS
from northbridge_conformance.tests.device.operation import keep_ten_bits

WEIGHTS = {"weight": torch.arange(12.0).view(3, 4), "counted": torch.tensor(3), "scale": torch.ones(2).bfloat16()}


def kept(tensors: dict[str, torch.Tensor]) -> Fingerprint:
    found = Fingerprint.parse(fingerprint(tensors))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("changed", "form", "bits"),
    [
        ({"weight": WEIGHTS["weight"].t().contiguous().t()}, True, True),  # other strides
        ({"weight": torch.nextafter(WEIGHTS["weight"], torch.tensor(99.0))}, True, False),
        ({"counted": torch.tensor(4)}, True, False),
        ({"scale": torch.tensor([1, -1]).bfloat16()}, True, False),
        ({"weight": WEIGHTS["weight"].view(4, 3)}, False, True),
        ({"weight": WEIGHTS["weight"].double()}, False, False),
        ({"more": torch.ones(1)}, False, False),
    ],
)
def test_tensors_of_one_form_and_equal_to_the_bit_have_one(
    changed: dict[str, torch.Tensor], form: bool, bits: bool
) -> None:
    found, expected = kept({**WEIGHTS, **changed}), kept(WEIGHTS)

    assert (found.form == expected.form, found.bits == expected.bits) == (form, bits)


def test_small_tensors_are_kept_whole_large_ones_sampled() -> None:
    assert kept(WEIGHTS).numbers == (*range(12), 3, 1, 1)

    (*numbers,) = kept({"large": torch.arange(1000.0)}).numbers
    assert len(numbers) <= MOST_NUMBERS
    assert numbers[0] < 100
    assert numbers[-1] > 900
    others = ("", "cpu_sim:0", "torch.float32 and more [1.0]", "a b [1]")
    assert [Fingerprint.parse(text) for text in others] == [None] * 4


def weights(*numbers: float) -> str:
    return fingerprint({"weight": torch.tensor(numbers)})


FOUND = {"weights": [weights(1.0, 2.0)], "loss": 0.5, "steps": 3, "device": "cpu", "kept": True, "rate": None}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"kept": True}, None),
        ({"loss": 0.5000001}, "it, loss: 0.5, and not 0.5000001"),
        ({"steps": 4}, "it, steps: 3, and not 4"),
        ({"device": "cuda"}, "it, device: 'cpu', and not 'cuda'"),
        ({"rate": 0.1}, "it, rate: None, and not 0.1"),
        ({"weights": []}, "it, weights: 1 of them, and not 0"),
        ({"weights": ["none"]}, f"it, weights, 0: {FOUND['weights'][0]!r}, and not 'none'"),  # type: ignore[index]
        (
            {"weights": [weights(1.0, 2.5)]},
            (
                "it, weights, 0: tensors with other bits than expected; of 2 elements that were compared, 2.0 is the"
                " furthest from what was expected, 2.5"
            ),
        ),
        ({"weights": [weights(1.0)]}, "it, weights, 0: tensors of other names, dtypes or shapes"),
    ],
)
def test_it_is_said_where_and_in_what(changed: dict[str, Any], said: str | None) -> None:
    assert find_differences(FOUND, {**FOUND, **changed}) == ([said] if said else [])


def test_each_place_has_a_line() -> None:
    assert len(find_differences([1.0, [2.0], "a"], [1.5, [2.5], "b"])) == 3
    assert find_differences({"loss": 1.0}, {"rate": 1.0}) == ["it: ['loss'], and not ['rate']"]
    many = torch.zeros(1000)
    found, expected = (fingerprint({"weight": each}) for each in (many.index_fill(0, torch.tensor([1]), 1), many))
    assert find_differences(found, expected) == ["it: tensors with other bits than expected"]


def test_numbers_may_be_within_a_distance_and_nothing_else_may() -> None:
    near = {**FOUND, "loss": 0.5005, "weights": [weights(1.0005, 2.0)]}

    assert find_differences(near, FOUND, within=1e-3) == []
    assert len(find_differences(near, FOUND, within=1e-4)) == 2
    assert len(find_differences(near, FOUND)) == 2
    assert find_differences({**FOUND, "steps": 4}, FOUND, within=10.0) == ["it, steps: 4, and not 3"]
    # Of a large number it is a part.
    assert find_differences(1000.5, 1000.0, within=1e-3) == []
    assert find_differences(1003.0, 1000.0, within=1e-3) == ["it: 1003.0, and not 1000.0"]


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_what_is_not_a_number_is_near_to_nothing_but_itself(wrong: float) -> None:
    assert len(find_differences(wrong, 1.0, within=1e9)) == 1
    assert len(find_differences(1.0, wrong, within=1e9)) == 1
    assert len(find_differences(weights(wrong, 1.0), weights(1.0, 1.0), within=1e9)) == 1
    assert find_differences(weights(wrong, 1.0), weights(wrong, 1.001), within=0.1) == []


@pytest.mark.parametrize(("simulated", "rounds", "differ"), [(1, 0, True), (0, 0, False), (1, 1, False)])
def test_simulated_chip_is_compared_bitwise_and_a_real_one_not(
    monkeypatch: pytest.MonkeyPatch, simulated: int, rounds: int, differ: bool
) -> None:
    class Declared:
        capabilities = Capabilities(simulated=bool(simulated), rounds=bool(rounds))

    monkeypatch.setattr(northbridge, "get", lambda name: {"acme": Declared}[name])
    near, far = 1 + TOLERANCES["float32"] / 2, 1 + TOLERANCES["float32"] * 2

    assert bool(differences_from_cpu("acme", near, 1.0)) == differ
    assert differences_from_cpu("acme", far, 1.0) != []
    assert bool(differences_from_cpu("acme", far, 1.0, "bfloat16")) == differ
    assert differences_from_cpu("acme", near, 1.0, simulated_within=0.1) == []


@pytest.mark.parametrize(("claim", "within"), [(yes, 1e-5), (no("it reads ten bits"), TOLERANCES["float32"])])
def test_ten_bit_chip_has_more_tolerance(monkeypatch: pytest.MonkeyPatch, claim: Claim, within: float) -> None:
    """What is claimed for the present card decides."""

    class Loaded:
        capabilities = Capabilities()

        @staticmethod
        def present_capabilities() -> Capabilities:
            return Capabilities(float32_products=claim)

    for function in ("get", "load"):
        monkeypatch.setattr(northbridge, function, lambda name: {"acme": Loaded}[name])
    monkeypatch.setattr("northbridge_conformance.runs.comparison.loaded", lambda: Loaded)

    assert tolerance("acme", 1e-5) == within
    assert (differences_from_cpu("acme", 1 + 2 * TOLERANCES["float32"], 1.0) == []) == claim.denied


class TenBits(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own __init_subclass__
    """Products read ten bits of each factor, forwards and backwards."""

    products = ("mm", "addmm", "bmm", "baddbmm", "convolution", "convolution_backward")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket.__name__ in self.products:
            args = tree_map_only(torch.Tensor, keep_ten_bits, args)
        return func(*args, **(kwargs or {}))


def train(model: str) -> str:
    net = build(model)
    optimizer = adam(net.parameters())
    for images, labels in (batch for _ in range(2) for batch in loader(shuffle=False)):
        optimizer.zero_grad()
        torch.autograd.backward(cross_entropy(net(images), labels))
        optimizer.step()
    return fingerprint(net.state_dict())


def test_tolerance_for_ten_bits_is_what_they_need() -> None:
    """The models of the suite end within it, and some of them beyond a fifth of it."""
    exact = [train(model) for model in MODELS]

    with TenBits():  # type: ignore[no-untyped-call]
        found = [train(model) for model in MODELS]

    assert find_differences(found, exact, within=TOLERANCES["ten bits"]) == []
    assert find_differences(found, exact, within=TOLERANCES["ten bits"] / 5) != []
