"""Batches of few shapes: boundaries of lengths, a sampler and a collate function."""

from __future__ import annotations

import inspect
import itertools
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.nn.functional import pad
from torch.utils.data import BatchSampler, DistributedSampler, Sampler, default_collate
from typing_extensions import Self

from northbridge.errors import ArgumentsError


class BucketBatchSampler(BatchSampler):
    """Yield batches of indices whose samples have similar lengths: those between two neighbouring boundaries.

    With :class:`PaddingCollate` and the same boundaries, there are as many shapes as boundaries, and with
    ``drop_last=False`` at most twice as many, because the last batch of a bucket may be smaller.

    With several ranks, all ranks build the same plan and take whole batches from it: in each step every rank has a
    batch of the same bucket, and all have the same number of batches. Lightning's distributed sampler, which a Trainer
    or Fabric passes as ``sampler``, tells only the epoch, the rank and the number of ranks. If the ranks would get
    different numbers, the last batches of a bucket repeat samples of it; never for a prediction.

    ``lengths`` has the length of each sample of the data set. ``batch_size`` is that of one rank. With ``shuffle``,
    each epoch has another order, by ``seed`` and the epoch. Raises :class:`ArgumentsError` if a sample is longer than
    the last boundary, or an argument is out of range.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make a sampler that Lightning can build anew with its own ``sampler``, also one of a derived class."""
        made = super().__new__(cls)
        _remember_arguments(made, args, kwargs)
        return made

    def __init__(
        self,
        lengths: Sequence[int],
        batch_size: int,
        boundaries: Sequence[int],
        *,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        sampler: Sampler[int] | None = None,
    ) -> None:
        if batch_size < 1:
            raise ArgumentsError(f"batch_size={batch_size}: expected 1 or more")
        checked = check_boundaries(boundaries)
        super().__init__(_Epoch(len(lengths)) if sampler is None else sampler, batch_size, drop_last)
        self.shuffle = shuffle
        self.seed = seed
        self.buckets: dict[int, list[int]] = {boundary: [] for boundary in checked}
        for index, length in enumerate(lengths):
            self.buckets[boundary_of(length, checked)].append(index)
        self.rank: int = sampler.rank if isinstance(sampler, DistributedSampler) else 0
        self.num_replicas: int = sampler.num_replicas if isinstance(sampler, DistributedSampler) else 1
        self._repeats = not _is_for_prediction(sampler)

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch; a Trainer does it. Without a Trainer, call it before each epoch."""
        set_epoch = getattr(self.sampler, "set_epoch", None)
        if callable(set_epoch):
            set_epoch(epoch)

    def __iter__(self) -> Iterator[list[int]]:
        for group in self._plan(getattr(self.sampler, "epoch", 0)):
            mine = group[self.rank :: self.num_replicas]
            if mine:
                yield mine

    def __len__(self) -> int:
        """Return the number of batches of this rank, the same in each epoch and, but for predictions, on each rank."""
        total, size = 0, self.batch_size * self.num_replicas
        for bucket in self.buckets.values():
            whole, rest = divmod(len(bucket), size)
            has_last = not self.drop_last and rest > (0 if self._repeats else self.rank)
            total += whole + int(has_last)
        return total

    def _plan(self, epoch: int) -> list[list[int]]:
        """Return the samples of each step, of all ranks together."""
        generator = torch.Generator().manual_seed(self.seed + epoch)
        size = self.batch_size * self.num_replicas
        groups: list[list[int]] = []
        for bucket in self.buckets.values():
            ordered = [bucket[place] for place in self._order(len(bucket), generator)]
            parts = [ordered[start : start + size] for start in range(0, len(ordered), size)]
            if parts and len(parts[-1]) < size:
                last = parts.pop()
                if not self.drop_last:
                    parts.append(self._fill(last, ordered))
            groups += parts
        return [groups[place] for place in self._order(len(groups), generator)]

    def _order(self, count: int, generator: torch.Generator) -> list[int]:
        return torch.randperm(count, generator=generator).tolist() if self.shuffle else list(range(count))

    def _fill(self, last: list[int], bucket: list[int]) -> list[int]:
        """Return ``last`` with the first samples of its bucket after it, until each rank has the same number."""
        missing = -len(last) % self.num_replicas if self._repeats else 0
        return last + [bucket[place % len(bucket)] for place in range(missing)]


class _Epoch(Sampler[int]):
    """Hold the epoch: Lightning tells it only to the sampler of a batch sampler."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.length))

    def __len__(self) -> int:
        return self.length


def _is_for_prediction(sampler: object) -> bool:
    # Lightning's, in each namespace; no sample may be predicted twice.
    return any(cls.__name__ == "UnrepeatedDistributedSampler" for cls in type(sampler).__mro__)


def _remember_arguments(sampler: BucketBatchSampler, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Store the arguments where Lightning looks for them when it builds a batch sampler anew with its own sampler.

    It stores them itself only for a batch sampler that is built inside a ``train_dataloader()`` or another such method.
    """
    parameters = [*inspect.signature(type(sampler).__init__).parameters.values()][1:]
    defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
    if any(each.kind is each.VAR_KEYWORD for each in parameters):  # a derived class that passes on what it is given
        defaults |= {"sampler": None, "drop_last": False}
    names = tuple(each.name for each in parameters)[: len(args)]
    for name, value in (("args", args), ("kwargs", dict(kwargs)), ("arg_names", names), ("default_kwargs", defaults)):
        vars(sampler)[f"__pl_saved_{name}"] = value


Values = float | Mapping[Any, Any] | Sequence[Any] | None


class PaddingCollate:
    """Pad the samples of a batch to the smallest boundary that holds the longest, and stack them as torch does.

    ``value`` is what tensors are padded with at their end, along dimension ``dim`` of a sample. It is one number for
    every tensor that has this dimension, or numbers in the structure of a sample, such as ``(0, None)`` or
    ``{"tokens": 0, "labels": -100}``: None, and a key that is left out, means not to pad. Each part of a sample is
    padded to its own boundary. NumPy arrays become tensors.

    A sample that is longer than the last boundary raises :class:`ArgumentsError`.
    """

    def __init__(self, boundaries: Iterable[int], value: Values = 0, dim: int = 0) -> None:
        self.boundaries: list[int] = check_boundaries(boundaries)
        if dim < 0:
            raise ArgumentsError(f"dim={dim}: expected a dimension of one sample, from 0")
        self.value = value
        self.dim = dim

    def __call__(self, samples: Sequence[Any]) -> Any:
        return self._collate(samples, self.value)

    def _collate(self, samples: Sequence[Any], value: Values) -> Any:
        first = samples[0]
        if isinstance(first, Mapping):
            return {key: self._collate([each[key] for each in samples], _part(value, key)) for key in first}
        if isinstance(first, (tuple, list)):
            parts = zip(*samples, strict=True)
            collated = [self._collate(part, _part(value, place)) for place, part in enumerate(parts)]
            return type(first)(*collated) if hasattr(first, "_fields") else collated
        if value is None:
            return default_collate(list(samples))
        if isinstance(value, (Mapping, Sequence)):
            kind = type(first).__name__
            raise ArgumentsError(f"PaddingCollate(value={self.value!r}): a sample has a {kind} there")
        return default_collate(self._padded([_tensor(each) for each in samples], value))

    def _padded(self, samples: list[Any], value: float) -> list[Any]:
        if not all(isinstance(each, torch.Tensor) and each.dim() > self.dim for each in samples):
            return samples
        length = boundary_of(max(each.shape[self.dim] for each in samples), self.boundaries)
        return [_lengthened(each, self.dim, length, value) for each in samples]


def _part(value: Values, key: Any) -> Values:
    """Return what the part ``key`` of a sample is padded with."""
    if isinstance(value, Mapping):
        return value.get(key)
    if isinstance(value, Sequence):
        if not isinstance(key, int) or key >= len(value):
            raise ArgumentsError(f"PaddingCollate(value={value!r}) lacks the part {key!r} of a sample")
        part: Values = value[key]
        return part
    return value


def _tensor(value: Any) -> Any:
    return torch.as_tensor(value) if type(value).__module__ == "numpy" else value


def _lengthened(tensor: torch.Tensor, dim: int, length: int, value: float) -> torch.Tensor:
    widths = [0, 0] * (tensor.dim() - dim - 1) + [0, length - tensor.shape[dim]]
    return pad(tensor, widths, value=value)


def quantile_boundaries(lengths: Iterable[int], count: int) -> list[int]:
    """Return at most ``count`` boundaries with about as many of the ``lengths`` below each; the last is the longest.

    Raises :class:`ArgumentsError` if there are no lengths, or ``count`` is not 1 or more.
    """
    ordered = _ordered(lengths)
    if count < 1:
        raise ArgumentsError(f"quantile_boundaries(count={count}): expected 1 or more")
    return sorted({ordered[-(-len(ordered) * number // count) - 1] for number in range(1, count + 1)})


def power_of_two_boundaries(lengths: Iterable[int], smallest: int = 8) -> list[int]:
    """Return ``smallest``, and its doubles until one holds the longest of the ``lengths``.

    Raises :class:`ArgumentsError` if there are no lengths, or ``smallest`` is not 1 or more.
    """
    longest = _ordered(lengths)[-1]
    if smallest < 1:
        raise ArgumentsError(f"power_of_two_boundaries(smallest={smallest}): not 1 or more")
    boundaries = [smallest]
    while boundaries[-1] < longest:
        boundaries.append(2 * boundaries[-1])
    return boundaries


def check_boundaries(boundaries: Iterable[int]) -> list[int]:
    """Return the boundaries as a list. Raises :class:`ArgumentsError` unless they ascend from 1 or more."""
    checked = list(boundaries)
    if not checked or checked[0] < 1 or any(low >= high for low, high in itertools.pairwise(checked)):
        raise ArgumentsError(f"boundaries={checked}: not ascending lengths from 1 on")
    return checked


def boundary_of(length: int, boundaries: Sequence[int]) -> int:
    """Return the smallest boundary that holds ``length``. Raises :class:`ArgumentsError` if none does."""
    number = bisect_left(boundaries, length)
    if number == len(boundaries):
        raise ArgumentsError(
            f"a sample of length {length} is longer than the last boundary, {boundaries[-1]}. Fix: add a boundary, or"
            " cut the sample"
        )
    return boundaries[number]


def _ordered(lengths: Iterable[int]) -> list[int]:
    ordered = sorted(lengths)
    if not ordered:
        raise ArgumentsError("no lengths were given, so there are no boundaries. Fix: pass the length of each sample")
    return ordered
