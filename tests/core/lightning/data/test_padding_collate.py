from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import northbridge
from northbridge import PaddingCollate

SHORT, LONG = torch.tensor([1, 2]), torch.tensor([3, 4, 5])


def test_a_batch_is_padded_to_the_boundary_of_its_longest() -> None:
    collate = PaddingCollate([4, 8])

    assert collate([SHORT, LONG]).tolist() == [[1, 2, 0, 0], [3, 4, 5, 0]]
    assert collate([torch.ones(5), torch.ones(1)]).shape == (2, 8)


def test_parts_of_a_sample_have_their_own_values() -> None:
    collate = PaddingCollate([4], value={"tokens": 9, "labels": -100})
    batch = collate([{"tokens": SHORT, "labels": SHORT, "id": 1}, {"tokens": LONG, "labels": LONG, "id": 2}])

    assert batch["tokens"].tolist() == [[1, 2, 9, 9], [3, 4, 5, 9]]
    assert batch["labels"][0].tolist() == [1, 2, -100, -100]
    assert batch["id"].tolist() == [1, 2]


def test_none_leaves_a_part_as_it_is() -> None:
    tokens, fixed = PaddingCollate([4], value=(0, None))([(SHORT, torch.ones(3)), (LONG, torch.ones(3))])

    assert tokens.shape == (2, 4)
    assert fixed.shape == (2, 3)


def test_numbers_and_numpy_arrays_become_tensors() -> None:
    tokens, label = PaddingCollate([4])([(np.array([1, 2]), 7), (np.array([3]), 8)])

    assert tokens.tolist() == [[1, 2, 0, 0], [3, 0, 0, 0]]
    assert label.tolist() == [7, 8]


def test_another_dimension_is_padded_at_its_end() -> None:
    batch = PaddingCollate([4], value=-1, dim=1)([torch.zeros(2, 3, 5), torch.zeros(2, 1, 5)])

    assert batch.shape == (2, 2, 4, 5)
    assert batch[1, :, 1:].eq(-1).all()
    assert batch[1, :, :1].eq(0).all()


def test_a_named_tuple_stays_one() -> None:
    class Sample(NamedTuple):
        tokens: torch.Tensor
        label: int

    batch = PaddingCollate([4])([Sample(SHORT, 1), Sample(LONG, 2)])

    assert isinstance(batch, Sample)
    assert batch.tokens.shape == (2, 4)


def test_a_sample_that_is_too_long_is_an_error_and_no_new_shape() -> None:
    with pytest.raises(northbridge.ArgumentsError, match="a sample of length 3 is longer than the last boundary, 2"):
        PaddingCollate([2])([SHORT, LONG])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ((0,), r"PaddingCollate\(value=\(0,\)\) lacks the part 1 of a sample"),
        (({"a": 0}, 0), r"a sample has a Tensor there"),
    ],
)
def test_values_that_do_not_fit_the_samples(value: Any, message: str) -> None:
    with pytest.raises(northbridge.ArgumentsError, match=message):
        PaddingCollate([4], value=value)([(SHORT, 1), (LONG, 2)])


def test_a_negative_dimension_is_an_error() -> None:
    with pytest.raises(northbridge.ArgumentsError, match=r"dim=-1: expected a dimension of one sample, from 0"):
        PaddingCollate([4], dim=-1)
