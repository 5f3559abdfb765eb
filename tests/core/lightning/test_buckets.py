from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tests.core.lightning.conftest import refusal
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler

from northbridge import ArgumentsError, BucketBatchSampler, PaddingCollate, power_of_two_boundaries, quantile_boundaries
from northbridge.lightning.namespaces import NAMESPACES, Namespace

BOUNDARIES = [4, 8, 16]
LENGTHS = [random.Random(seed).randint(1, 16) for seed in range(50)]


class Derived(BucketBatchSampler):
    """A user's class, with arguments of its own."""

    def __init__(self, size: int, *, extra: str, **options: Any) -> None:
        super().__init__(LENGTHS, size, BOUNDARIES, **options)
        self.extra = extra


def bucket_of(index: int) -> int:
    return next(boundary for boundary in BOUNDARIES if LENGTHS[index] <= boundary)


def sampler(**options: Any) -> BucketBatchSampler:
    return BucketBatchSampler(LENGTHS, **{"batch_size": 4, "boundaries": BOUNDARIES, **options})


def of_rank(rank: int, ranks: int = 2, **options: Any) -> BucketBatchSampler:
    return sampler(sampler=DistributedSampler(LENGTHS, num_replicas=ranks, rank=rank), **options)  # type: ignore[arg-type]


class TestOneRank:
    def test_each_batch_is_of_one_bucket_and_each_sample_once(self) -> None:
        batches = list(sampler(shuffle=True))

        assert [len({bucket_of(index) for index in batch}) for batch in batches] == [1] * len(batches)
        assert sorted(chain.from_iterable(batches)) == list(range(len(LENGTHS)))
        assert len(sampler()) == len(batches)
        assert sum(len(batch) < 4 for batch in batches) <= len(BOUNDARIES)

    def test_drop_last_leaves_only_whole_batches(self) -> None:
        batches = list(sampler(drop_last=True, shuffle=True))

        assert {len(batch) for batch in batches} == {4}
        assert len(batches) == len(sampler(drop_last=True)) < len(sampler())

    def test_an_epoch_has_its_own_order_and_can_be_repeated(self) -> None:
        shuffled = sampler(shuffle=True, seed=3)
        first, again = list(shuffled), list(shuffled)
        shuffled.set_epoch(1)
        second = list(shuffled)

        assert first == again == list(sampler(shuffle=True, seed=3))
        assert first != second
        assert list(sampler(shuffle=True, seed=9)) not in (first, second)
        assert len(first) == len(second)
        plain = sampler()
        before = list(plain)
        plain.set_epoch(5)
        assert list(plain) == before


class TestSeveralRanks:
    @pytest.mark.parametrize("ranks", [2, 3])
    @pytest.mark.parametrize("drop_last", [False, True])
    def test_in_each_step_ranks_share_a_bucket_and_a_size(self, ranks: int, drop_last: bool) -> None:
        batches = [list(of_rank(rank, ranks, drop_last=drop_last, shuffle=True)) for rank in range(ranks)]

        assert {len(each) for each in batches} == {len(of_rank(0, ranks, drop_last=drop_last))}
        for step in zip(*batches, strict=True):
            assert len({bucket_of(index) for batch in step for index in batch}) == 1
            assert len({len(batch) for batch in step}) == 1

    def test_every_sample_is_seen_and_few_are_seen_twice(self) -> None:
        seen = [index for rank in range(2) for batch in of_rank(rank, shuffle=True) for index in batch]

        assert set(seen) == set(range(len(LENGTHS)))
        assert len(seen) - len(LENGTHS) <= len(BOUNDARIES)  # one more for each bucket with an odd number

    def test_a_bucket_of_one_sample_fills_all_ranks(self) -> None:
        alone = [
            list(BucketBatchSampler([1], 4, [4], sampler=DistributedSampler([1], num_replicas=3, rank=rank)))  # type: ignore[arg-type]
            for rank in range(3)
        ]

        assert alone == [[[0]]] * 3

    def test_the_epoch_reaches_it_through_the_distributed_sampler(self) -> None:
        distributed = of_rank(0, shuffle=True)
        first = list(distributed)
        assert isinstance(distributed.sampler, DistributedSampler)
        distributed.sampler.set_epoch(1)

        assert list(distributed) != first


@pytest.mark.parametrize("namespace", NAMESPACES.values(), ids=NAMESPACES)
class TestLightning:
    def replaced(self, namespace: Namespace, own: BucketBatchSampler, **found: Any) -> BucketBatchSampler:
        """Return the batch sampler that Lightning builds for a rank from the user's."""
        importlib.import_module(namespace.name)
        data = namespace.module("utilities.data")
        loader: DataLoader[Any] = DataLoader(torch.zeros(len(LENGTHS)), batch_sampler=own)  # type: ignore[arg-type]
        new = found.pop("sampler", None) or DistributedSampler(LENGTHS, num_replicas=2, rank=1)  # type: ignore[arg-type]
        rebuilt: BucketBatchSampler = data._update_dataloader(loader, new, **found).batch_sampler
        return rebuilt

    def test_its_sampler_tells_the_rank_and_changes_nothing_else(self, namespace: Namespace) -> None:
        rebuilt = self.replaced(namespace, sampler(shuffle=True, seed=7, drop_last=True))

        assert (rebuilt.rank, rebuilt.num_replicas) == (1, 2)
        assert list(rebuilt) == list(of_rank(1, shuffle=True, seed=7, drop_last=True))

    def test_built_inside_a_dataloader_method_it_is_replaced_as_well(self, namespace: Namespace) -> None:
        with namespace.fabric_module("utilities.data")._replace_dunder_methods(BatchSampler):
            own = BucketBatchSampler(LENGTHS, 4, BOUNDARIES, shuffle=True)

        assert list(self.replaced(namespace, own)) == list(of_rank(1, shuffle=True))

    def test_a_derived_class_is_built_anew_with_its_arguments(self, namespace: Namespace) -> None:
        again = self.replaced(namespace, Derived(4, extra="text", shuffle=True))

        assert isinstance(again, Derived)
        assert (again.extra, again.shuffle, again.num_replicas, again.rank) == ("text", True, 2, 1)

    def test_its_epochs_reach_the_sampler(self, namespace: Namespace) -> None:
        own = sampler(shuffle=True)
        first = list(own)
        namespace.fabric_module("utilities.data")._set_sampler_epoch(DataLoader([0], batch_sampler=own), 1)  # type: ignore[arg-type]

        assert list(own) != first

    def test_a_prediction_repeats_no_sample(self, namespace: Namespace) -> None:
        if not namespace.is_trainer:
            pytest.skip("a Fabric has no prediction of its own")
        overrides = namespace.module("overrides.distributed")
        unrepeated = [
            overrides.UnrepeatedDistributedSampler(LENGTHS, num_replicas=2, rank=rank, shuffle=False) for rank in (0, 1)
        ]
        mode = namespace.module("trainer.states").RunningStage.PREDICTING
        batches = [list(self.replaced(namespace, sampler(), sampler=each, mode=mode)) for each in unrepeated]

        assert sorted(index for rank in batches for batch in rank for index in batch) == list(range(len(LENGTHS)))


SHORT, LONG = torch.tensor([1, 2]), torch.tensor([3, 4, 5])


def test_a_batch_is_padded_to_the_boundary_of_its_longest() -> None:
    collate = PaddingCollate([4, 8])

    assert collate([SHORT, LONG]).tolist() == [[1, 2, 0, 0], [3, 4, 5, 0]]
    assert collate([torch.ones(5), torch.ones(1)]).shape == (2, 8)


class Sample(NamedTuple):
    tokens: Any
    fixed: torch.Tensor
    label: int


def test_parts_of_a_sample_have_their_own_values() -> None:
    """None leaves a part as it is. Numbers and arrays become tensors, and a named tuple stays one."""
    collate = PaddingCollate([4], value={"tokens": 9, "labels": -100})
    batch = collate([{"tokens": SHORT, "labels": SHORT, "id": 1}, {"tokens": LONG, "labels": LONG, "id": 2}])

    assert batch["tokens"].tolist() == [[1, 2, 9, 9], [3, 4, 5, 9]]
    assert batch["labels"][0].tolist() == [1, 2, -100, -100]
    assert batch["id"].tolist() == [1, 2]

    samples = [Sample(np.array([1, 2]), torch.ones(3), 7), Sample(np.array([3]), torch.ones(3), 8)]
    named = PaddingCollate([4], value=(0, None, 0))(samples)
    assert isinstance(named, Sample)
    assert named.tokens.tolist() == [[1, 2, 0, 0], [3, 0, 0, 0]]
    assert named.fixed.shape == (2, 3)
    assert torch.as_tensor(named.label).tolist() == [7, 8]


def test_another_dimension_is_padded_at_its_end() -> None:
    batch = PaddingCollate([4], value=-1, dim=1)([torch.zeros(2, 3, 5), torch.zeros(2, 1, 5)])

    assert batch.shape == (2, 2, 4, 5)
    assert batch[1, :, 1:].eq(-1).all()
    assert batch[1, :, :1].eq(0).all()


SPREAD = [3, 5, 5, 8, 9, 20, 21, 40]


@pytest.mark.parametrize(
    ("count", "boundaries"), [(1, [40]), (2, [8, 40]), (4, [5, 8, 20, 40]), (99, sorted({*SPREAD}))]
)
def test_quantiles_hold_equal_shares_of_the_lengths(count: int, boundaries: list[int]) -> None:
    assert quantile_boundaries(SPREAD, count) == boundaries


def test_powers_of_two_end_at_the_first_that_holds_the_longest() -> None:
    assert power_of_two_boundaries(SPREAD) == [8, 16, 32, 64]
    assert power_of_two_boundaries([64], smallest=16) == [16, 32, 64]
    assert power_of_two_boundaries([2]) == [8]


WRONG: list[tuple[Callable[[], object], str]] = [
    (
        lambda: BucketBatchSampler([3, 17], 2, BOUNDARIES),
        "a sample of length 17 is longer than the last boundary, 16. Fix: add a boundary, or cut",
    ),
    (lambda: PaddingCollate([2])([SHORT, LONG]), "a sample of length 3 is longer than the last boundary, 2"),
    *(
        (partial(BucketBatchSampler, [3], 2, boundaries), f"boundaries={boundaries}: not ascending lengths")
        for boundaries in ([], [8, 4], [4, 4], [0, 4])
    ),
    (lambda: sampler(batch_size=0), "batch_size=0: expected 1 or more"),
    (
        lambda: PaddingCollate([4], value=(0,))([(SHORT, 1), (LONG, 2)]),
        "PaddingCollate(value=(0,)) lacks the part 1 of a sample",
    ),
    (lambda: PaddingCollate([4], value=({"a": 0}, 0))([(SHORT, 1), (LONG, 2)]), "a sample has a Tensor there"),
    (lambda: PaddingCollate([4], dim=-1), "dim=-1: expected a dimension of one sample, from 0"),
    (lambda: quantile_boundaries([], 2), "Fix: pass the length of each sample"),
    (lambda: quantile_boundaries(SPREAD, 0), "quantile_boundaries(count=0): expected 1 or more"),
    (lambda: power_of_two_boundaries(SPREAD, 0), "power_of_two_boundaries(smallest=0): not 1 or more"),
]


@pytest.mark.parametrize(("act", "said"), WRONG)
def test_wrong_arguments_are_errors(act: Callable[[], object], said: str) -> None:
    assert said in refusal(ArgumentsError, act)
