"""Measures of one tensor, computed on the host: a chip whose operators are in doubt must not measure itself."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import numpy
import torch

SKETCH = 32
"""Number of signed sums of all values. They are linear: the difference of two sketches has about the norm of the
difference of the tensors, wherever in the tensors it is."""

SAMPLE = 16
"""Number of values that are kept, at fixed places."""

_COLUMNS = 251  # a prime: rows of usual lengths that are swapped change the sums
_BLOCK = 1 << 16
_MOST_TENSORS = 16
_DEEPEST = 4


def measure(given: torch.Tensor) -> dict[str, object]:
    """Return the shape, dtype, norm, largest value, fingerprint, sample and sketch of a tensor, or of its shard."""
    tensor = given.detach()
    if hasattr(tensor, "to_local"):
        tensor = tensor.to_local()
    about: dict[str, object] = {"shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch.")}
    if tensor.layout != torch.strided or tensor.is_nested or tensor.is_quantized or tensor.is_meta:
        return about
    host = tensor.to("cpu").contiguous().reshape(-1)
    if not host.numel():
        return about
    about["bits"] = _fingerprint(host.view(torch.uint8).numpy())
    numbers = _as_floats(host)
    norm, lost = float(numpy.sqrt(numpy.dot(numbers, numbers))), 0
    if not numpy.isfinite(norm):
        finite = numpy.isfinite(numbers)
        lost = numbers.size - int(finite.sum())
        numbers = numpy.where(finite, numbers, 0).astype(numpy.float64)
        norm = float(numpy.sqrt(numpy.dot(numbers, numbers)))
    largest = max(float(numbers.max()), -float(numbers.min()))
    places = [(each * 2654435761 % (1 << 32)) * numbers.size >> 32 for each in range(SAMPLE)]
    about |= {"norm": norm, "largest": largest, "lost": lost}
    about |= {"sample": pack(numbers[places]), "sketch": pack(_sketch(numbers))}
    return about


def _fingerprint(data: Any) -> str:
    words = data[: data.size // 8 * 8].view(numpy.uint64)
    whole = words.size // _COLUMNS * _COLUMNS
    sums = numpy.add.reduce(words[:whole].reshape(-1, _COLUMNS), axis=0, dtype=numpy.uint64)
    ends = zlib.crc32(data[whole * 8 :].tobytes())
    return f"{zlib.crc32(sums.tobytes()):08x}{ends:08x}{int(sums.sum()) & 0xFFFFFFFF:08x}"


def _as_floats(host: torch.Tensor) -> Any:
    if host.is_complex():
        host = torch.view_as_real(host).reshape(-1)
    kind = torch.float32 if host.is_floating_point() and host.dtype != torch.float64 else torch.float64
    return host.to(kind).numpy()


@cache
def _signs(wide: bool) -> torch.Tensor:
    signs = numpy.random.RandomState(48).randint(0, 2, _BLOCK) * 2 - 1
    return torch.from_numpy(signs.astype(numpy.float64 if wide else numpy.float32))


def _sketch(numbers: Any) -> Any:
    signs = _signs(numbers.dtype == numpy.float64)
    rows = numbers.size // SKETCH
    sums = numpy.zeros(SKETCH, numpy.float64)
    sums[: numbers.size % SKETCH] = numbers[rows * SKETCH :]
    table = torch.from_numpy(numbers[: rows * SKETCH].reshape(rows, SKETCH))
    for number, block in enumerate(torch.split(table, _BLOCK)):
        sums += float(signs[number % _BLOCK]) * torch.mv(block.t(), signs[: len(block)]).double().numpy()
    return sums


def pack(numbers: Any) -> str:
    """Return numbers as text: little-endian float32 in base64."""
    with numpy.errstate(over="ignore"):
        return base64.b64encode(numpy.asarray(numbers).astype("<f4").tobytes()).decode()


def unpack(text: str, size: int) -> Any:
    """Return the numbers that :func:`pack` wrote. Raises ``ValueError`` if there are not ``size``."""
    numbers = numpy.frombuffer(base64.b64decode(text, validate=True), "<f4").astype(numpy.float64)
    if numbers.size != size:
        raise ValueError(f"there are not {size} numbers")
    return numpy.nan_to_num(numbers)


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
