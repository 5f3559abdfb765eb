"""A collate function that pads samples to few lengths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.nn.functional import pad
from torch.utils.data import default_collate

from northbridge.errors import ArgumentsError
from northbridge.lightning.data.boundaries import boundary_of, check_boundaries

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
        """Return the batch of these samples."""
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
