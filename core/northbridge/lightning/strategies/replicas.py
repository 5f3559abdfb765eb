"""The ranks' copies of a model: made rank 0's again, after vendors' chips have rounded its steps differently."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from northbridge.errors import WeightsDisagreeError
from northbridge.lightning.plugins.containers import values_in

_PIECE_BYTES = 2**26
_SMALLEST = 1e-3


@dataclass(frozen=True)
class Distance:
    """The largest relative distance of a parameter from rank 0's, of all ranks and parameters."""

    value: float
    rank: int
    parameter: int
    """Its place among the optimizer's parameters."""


def parameters_of(optimizer: Any) -> list[Tensor]:
    """Return the parameters of ``optimizer`` in the order of its groups."""
    return [each for group in optimizer.param_groups for each in group["params"]]


def synchronize(optimizer: Any) -> Distance:
    """Make the parameters and the state of ``optimizer`` rank 0's, to the bit, and return how far they were from it.

    All ranks call it, and get the same. The distance of a parameter is the norm of the difference over the norm of rank
    0's; a parameter of small values counts as if its mean square were 1e-3 squared of that of all. Raises
    :class:`WeightsDisagreeError` if the ranks' optimizers do not have the same tensors.
    """
    parameters = parameters_of(optimizer)
    state = [optimizer.state[each] for each in parameters if each in optimizer.state]
    tensors = [*parameters, *(each for each in values_in(state) if isinstance(each, Tensor))]
    _assert_alike(optimizer, tensors)
    places = {id(each): place for place, each in enumerate(parameters)}
    apart, norms = [0.0] * len(parameters), [0.0] * len(parameters)
    for tensor, own, rank_0s in _with_rank_0s(tensors):
        is_equal = torch.equal(own, rank_0s)
        place = places.get(id(tensor))
        if place is not None:
            norms[place] = _norm(rank_0s)
            apart[place] = 0.0 if is_equal else _norm(_difference(own, rank_0s))
        if not is_equal:
            write(tensor, rank_0s)
    return _largest(parameters, apart, norms)


@torch.no_grad()
def write(tensor: Tensor, rank_0s: Tensor) -> None:
    """Give ``tensor`` rank 0's numbers, in place."""
    tensor.copy_(rank_0s)


def _assert_alike(optimizer: Any, tensors: Sequence[Tensor]) -> None:
    shapes = "".join(f"{each.dtype} {tuple(each.shape)}\n" for each in tensors)
    own = int.from_bytes(blake2b(shapes.encode(), digest_size=7).digest(), "big")
    facts = _gather([own, len(tensors)], torch.int64)
    others = tuple(rank for rank, fact in enumerate(facts) if fact != facts[0])
    if others:
        counts = ", ".join(f"{int(count)} on rank {rank}" for rank, (_, count) in enumerate(facts))
        raise WeightsDisagreeError(
            f"the ranks' {type(optimizer).__name__} have other tensors ({counts}). Fix: the same model and the same"
            " optimizer on every chip",
            ranks=others,
        )


def _with_rank_0s(tensors: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield each tensor, its copy on the host, and rank 0's, all pieces in the same order on each rank."""
    by_dtype = sorted(tensors, key=lambda each: str(each.dtype))  # stable
    for _, alike in groupby(by_dtype, key=lambda each: each.dtype):
        for piece in _pieces(alike):
            own = torch.cat([each.detach().cpu().reshape(-1) for each in piece])
            rank_0s = own if dist.get_rank() == 0 else torch.empty_like(own)
            dist.broadcast(rank_0s, 0)
            sizes = [each.numel() for each in piece]
            parts = torch.split(own, sizes), torch.split(rank_0s, sizes)
            for tensor, mine, theirs in zip(piece, *parts, strict=True):
                yield tensor, mine.view(tensor.shape), theirs.view(tensor.shape)


def _pieces(tensors: Iterator[Tensor]) -> Iterator[list[Tensor]]:
    piece: list[Tensor] = []
    size = 0
    for each in tensors:
        piece.append(each)
        size += each.numel() * each.element_size()
        if size >= _PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _norm(tensor: Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor.to(torch.float32 if tensor.itemsize < 4 else tensor.dtype)))


def _difference(own: Tensor, rank_0s: Tensor) -> Tensor:
    # Infinity minus infinity, and NaN minus NaN, would be NaN: a training that diverges does so on all ranks alike.
    is_alike = (own == rank_0s) | (own.isnan() & rank_0s.isnan())
    return torch.where(is_alike, torch.zeros_like(own), own - rank_0s)


def _largest(parameters: Sequence[Tensor], apart: Sequence[float], norms: Sequence[float]) -> Distance:
    finite = [(norm, each.numel()) for norm, each in zip(norms, parameters, strict=True) if math.isfinite(norm)]
    numbers = sum(count for _, count in finite)
    typical = math.hypot(*(norm for norm, _ in finite)) / math.sqrt(numbers) if numbers else 0.0
    worst, place = 0.0, 0
    for number, (parameter, difference, norm) in enumerate(zip(parameters, apart, norms, strict=True)):
        if difference == 0:
            continue
        scale = max(norm, _SMALLEST * typical * math.sqrt(parameter.numel()))
        distance = difference / scale if scale else math.inf
        distance = distance if math.isfinite(distance) else math.inf  # NaN or infinity on one of the ranks alone
        if distance > worst:
            worst, place = distance, number
    facts = _gather([worst, float(place)], torch.float64)
    rank = max(range(len(facts)), key=lambda each: facts[each][0])
    return Distance(facts[rank][0], rank, int(facts[rank][1]))


def _gather(numbers: list[Any], dtype: torch.dtype) -> list[list[Any]]:
    own = torch.tensor(numbers, dtype=dtype)
    gathered = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, own)
    return [each.tolist() for each in gathered]
