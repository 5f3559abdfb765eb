"""Measures of one tensor, computed on the host: a chip whose operators are in doubt must not measure itself."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import islice
from random import Random
from typing import Any

import torch

from northbridge.snapshots.records import MOST_OF_FLOAT32, SAMPLE, SKETCH

_COLUMNS = 251  # a prime: rows of usual lengths that are swapped change the sums
_BLOCK = 1 << 16
_MOST_TENSORS = 128
_DEEPEST = 4
_LEAST_OF_FLOAT32 = 1e-16


def measure(given: torch.Tensor) -> dict[str, object]:
    """Return the shape, dtype, norm, largest value, fingerprint, sample and sketch of a tensor, or of its shard."""
    tensor = shard_of(given)
    about: dict[str, object] = {"shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch.")}
    is_known = tensor.layout in (torch.strided, torch.sparse_coo)
    if not is_known or tensor.is_nested or tensor.is_quantized or tensor.is_meta or not tensor.numel():
        return about
    try:
        host = tensor.to("cpu")
        if host.is_sparse:  # dense, a table of a graph's edges may be larger than the memory
            stored = host.coalesce().values()
            host = stored if stored.numel() else stored.new_zeros(1)
        host = host.resolve_conj().resolve_neg().contiguous().reshape(-1)
        about["bits"] = _fingerprint(host.clone() if host.storage_offset() else host)
    except NotImplementedError:  # a subclass that has no bits to look at
        return about
    if host.is_complex():
        host = torch.view_as_real(host).reshape(-1)
    is_narrow = host.is_floating_point() and host.dtype != torch.float64
    numbers = host.to(torch.float32 if is_narrow else torch.float64)
    norm, lost = math.sqrt(float(torch.dot(numbers, numbers))), 0
    if norm < _LEAST_OF_FLOAT32 * math.sqrt(numbers.numel()):  # the squares are 0, or have few bits
        norm = float(torch.linalg.vector_norm(numbers, dtype=torch.float64))
    if not math.isfinite(norm):
        finite = torch.isfinite(numbers)
        lost = numbers.numel() - int(finite.sum())
        numbers = torch.where(finite, numbers, 0).double().clamp(-MOST_OF_FLOAT32, MOST_OF_FLOAT32)
        norm = float(torch.linalg.vector_norm(numbers))
    places = [(each * 2654435761 % (1 << 32)) * numbers.numel() >> 32 for each in range(SAMPLE)]
    sample, sketch = ([float(f"{each:.9g}") for each in kept.tolist()] for kept in (numbers[places], _sketch(numbers)))
    least, most = map(float, torch.aminmax(numbers))
    largest = max(-least, most)
    return about | {"norm": norm, "largest": largest, "lost": lost, "sample": sample, "sketch": sketch}


def shard_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of a sharded tensor that this rank holds, without its graph; another tensor as it is."""
    local: Any = tensor.detach()
    shard: torch.Tensor = local.to_local() if hasattr(local, "to_local") else local
    return shard


def _fingerprint(host: torch.Tensor) -> str:
    data = host.view(torch.uint8)
    whole = data.numel() // (8 * _COLUMNS) * (8 * _COLUMNS)
    sums = data[:whole].view(torch.int64).view(-1, _COLUMNS).sum(0).tolist()
    ends = zlib.crc32(bytes(data[whole:].tolist()))
    return f"{zlib.crc32(struct.pack(f'<{_COLUMNS}q', *sums)):08x}{ends:08x}{sum(sums) & 0xFFFFFFFF:08x}"


@cache
def _signs(dtype: torch.dtype) -> torch.Tensor:
    bits = Random(48).getrandbits(_BLOCK)  # the same in every version of Python
    return torch.tensor([1.0 if bits >> place & 1 else -1.0 for place in range(_BLOCK)], dtype=dtype)


def _sketch(numbers: torch.Tensor) -> torch.Tensor:
    signs = _signs(numbers.dtype)
    rows = numbers.numel() // SKETCH
    sums = torch.zeros(SKETCH, dtype=torch.float64)
    sums[: numbers.numel() % SKETCH] = numbers[rows * SKETCH :].double()
    table = numbers[: rows * SKETCH].view(rows, SKETCH)
    for number, block in enumerate(torch.split(table, _BLOCK)):
        sums += float(signs[number % _BLOCK]) * torch.mv(block.t(), signs[: len(block)]).double()
    return sums


def tensors_in(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    """Yield the tensors of a module's arguments or result: of tuples, lists, mappings and dataclasses."""
    parts: Iterable[Any] = ()
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, (tuple, list)):
        parts = value
    elif is_dataclass(value) and not isinstance(value, type):
        parts = (getattr(value, each.name, None) for each in fields(value))
    for each in islice(parts, _MOST_TENSORS if depth < _DEEPEST else 0):
        yield from tensors_in(each, depth + 1)
