"""Measures of one tensor, computed on the host: a chip whose operators are in doubt must not measure itself."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from random import Random
from typing import Any

import torch

SKETCH = 32
"""Number of signed sums of all values. They are linear: the difference of two sketches has about the norm of the
difference of the tensors, wherever in the tensors it is."""

SAMPLE = 16
"""Number of values that are kept, at fixed places."""

_COLUMNS = 251  # a prime: rows of usual lengths that are swapped change the sums
_BLOCK = 1 << 16
_MOST_TENSORS = 128
_DEEPEST = 4
_MOST = 3.4e38  # of float32


def measure(given: torch.Tensor) -> dict[str, object]:
    """Return the shape, dtype, norm, largest value, fingerprint, sample and sketch of a tensor, or of its shard."""
    tensor = shard_of(given)
    about: dict[str, object] = {"shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch.")}
    if tensor.layout != torch.strided or tensor.is_nested or tensor.is_quantized or tensor.is_meta:
        return about
    host = tensor.to("cpu").contiguous().reshape(-1)
    if not host.numel():
        return about
    about["bits"] = _fingerprint(host.clone() if host.storage_offset() else host)
    if host.is_complex():
        host = torch.view_as_real(host).reshape(-1)
    is_narrow = host.is_floating_point() and host.dtype != torch.float64
    numbers = host.to(torch.float32 if is_narrow else torch.float64)
    norm, lost = math.sqrt(float(torch.dot(numbers, numbers))), 0
    if not math.isfinite(norm):
        finite = torch.isfinite(numbers)
        lost = numbers.numel() - int(finite.sum())
        numbers = torch.where(finite, numbers, 0).double()
        norm = float(torch.linalg.vector_norm(numbers))
    places = [(each * 2654435761 % (1 << 32)) * numbers.numel() >> 32 for each in range(SAMPLE)]
    least, most = map(float, torch.aminmax(numbers))
    about |= {"norm": norm, "largest": max(most, -least), "lost": lost}
    return about | {"sample": pack(numbers[places].tolist()), "sketch": pack(_sketch(numbers).tolist())}


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
    for number, start in enumerate(range(0, rows, _BLOCK)):
        block = table[start : start + _BLOCK]
        sums += float(signs[number % _BLOCK]) * torch.mv(block.t(), signs[: len(block)]).double()
    return sums


def pack(numbers: Sequence[float]) -> str:
    """Return numbers as text: little-endian float32 in base64."""
    return base64.b64encode(
        struct.pack(f"<{len(numbers)}f", *(max(-_MOST, min(_MOST, each)) for each in numbers))
    ).decode()


def unpack(text: str, size: int) -> tuple[float, ...]:
    """Return the finite numbers that :func:`pack` wrote. Raises ``ValueError`` if there are not ``size``."""
    try:
        numbers: tuple[float, ...] = struct.unpack(f"<{size}f", base64.b64decode(text, validate=True))
    except struct.error:
        raise ValueError(f"there are not {size} numbers") from None
    if not all(map(math.isfinite, numbers)):
        raise ValueError("a number is not finite")
    return numbers


def tensors_in(value: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    """Yield the tensors of a module's arguments or result: of tuples, lists, mappings and dataclasses."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth < _DEEPEST:
        for each in _parts(value)[:_MOST_TENSORS]:
            yield from tensors_in(each, depth + 1)


def _parts(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, (tuple, list)):
        return list(value)
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, each.name, None) for each in fields(value)]
    return []
