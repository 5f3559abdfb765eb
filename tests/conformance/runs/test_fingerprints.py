"""Fingerprints of tensors."""

from __future__ import annotations

import pytest
import torch

from northbridge_conformance.runs.fingerprints import MOST_NUMBERS, Fingerprint, fingerprint

WEIGHTS = {"weight": torch.arange(12.0).view(3, 4), "counted": torch.tensor(3), "scale": torch.ones(2).bfloat16()}


def kept(tensors: dict[str, torch.Tensor]) -> Fingerprint:
    found = Fingerprint.parse(fingerprint(tensors))
    assert found is not None
    return found


def test_tensors_that_are_equal_to_the_bit_have_one() -> None:
    turned = {**WEIGHTS, "weight": WEIGHTS["weight"].t().contiguous().t()}  # other strides

    assert fingerprint(WEIGHTS) == fingerprint(turned)


@pytest.mark.parametrize(
    "changed",
    [
        {"weight": torch.nextafter(WEIGHTS["weight"], torch.tensor(99.0))},
        {"counted": torch.tensor(4)},
        {"scale": torch.tensor([1, -1]).bfloat16()},
    ],
)
def test_other_bits_are_another(changed: dict[str, torch.Tensor]) -> None:
    found, expected = kept({**WEIGHTS, **changed}), kept(WEIGHTS)

    assert found.form == expected.form
    assert found.bits != expected.bits


@pytest.mark.parametrize(
    "changed",
    [
        {"weight": WEIGHTS["weight"].view(4, 3)},
        {"weight": WEIGHTS["weight"].double()},
        {"more": torch.ones(1)},
    ],
)
def test_names_dtypes_and_shapes_are_its_form(changed: dict[str, torch.Tensor]) -> None:
    assert kept({**WEIGHTS, **changed}).form != kept(WEIGHTS).form


def test_small_tensors_are_kept_whole_large_ones_sampled() -> None:
    assert kept(WEIGHTS).numbers == (*range(12), 3, 1, 1)

    (*numbers,) = kept({"large": torch.arange(1000.0)}).numbers
    assert len(numbers) <= MOST_NUMBERS
    assert numbers[0] < 100
    assert numbers[-1] > 900


def test_what_is_not_a_number_is_kept() -> None:
    assert str(kept({"loss": torch.tensor([float("nan"), float("inf")])}).numbers) == "(nan, inf)"


@pytest.mark.parametrize("text", ["", "cpu_sim:0", "torch.float32 and more [1.0]", "a b [1]"])
def test_other_texts_are_none(text: str) -> None:
    assert Fingerprint.parse(text) is None
