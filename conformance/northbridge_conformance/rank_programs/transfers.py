"""Move tensors and objects between the ranks with torch, which uses the chip's library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
import torch.distributed as dist

from northbridge_conformance.rank_programs.collective_reductions import (
    BITS,
    FLOATS,
    MANY,
    MOST,
    digits,
    extremes,
    large_number,
    many,
)
from northbridge_conformance.runs.findings import write
from northbridge_conformance.runs.ranks import Rank, attempt, meet
from northbridge_conformance.runs.scenario import Scenario

DTYPES = ("float32", "float16", "bfloat16", "int64", "uint8", "bool")
"""The dtypes in which one rank's tensor is broadcast, and each rank's tensor is gathered."""

LOSSLESS = (*FLOATS, "int64", "int32", "int16", "uint8")
"""The dtypes in which numbers are sent that use every digit of the dtype."""


def perform(scenario: Scenario, folder: Path) -> None:
    """Broadcast from each rank, and gather; each rank reports its results."""
    rank = meet(scenario)
    found: dict[str, Any] = {"device": str(rank.device)}
    for root in range(rank.ranks):
        found[f"broadcast from {root}"] = attempt(partial(_broadcast, rank, given(rank.number), root))
    for dtype in DTYPES:
        found[f"broadcast of {dtype}"] = attempt(partial(_broadcast_dtype, rank, getattr(torch, dtype)))
        found[f"gathered {dtype}"] = attempt(partial(_gather_dtype, rank, getattr(torch, dtype)))
    large = found["large"] = large_number(scenario.accelerator)
    for dtype in LOSSLESS:
        number = last_digit(dtype, rank.number, large)
        found[f"digits gathered {dtype}"] = attempt(partial(_gather_digits, rank, dtype, number))
        found[f"digits broadcast {dtype}"] = attempt(partial(_broadcast_digits, rank, dtype, number))
    for dtype in FLOATS:
        found[f"scattered sums of {dtype}"] = attempt(partial(_reduce_scatter_digits, rank, dtype))
    for name, numbers in (("nothing", []), ("a number", rank.number + 1.0)):
        found[f"{name} gathered"] = attempt(partial(_gather_numbers, rank, numbers))
        found[f"{name} broadcast"] = attempt(partial(_broadcast, rank, numbers, rank.ranks - 1))
    ways = {
        "gathered": _gather,
        "gathered flat": _gather_flat,
        "gathered by the backend": _gather_by_the_backend,
        "gathered before": _gather_twice,
        "gathered behind others": _gather_behind_others,
        "broadcast behind others": _broadcast_behind_others,
        "many gathered": _gather_many,
        "many broadcast": _broadcast_many,
        "many scattered": _reduce_scatter_many,
        "scattered sums": _reduce_scatter,
        "scattered averages": _average_scatter,
        "objects": _gather_objects,
        "message": _broadcast_objects,
    }
    found |= {name: attempt(partial(way, rank)) for name, way in ways.items()}
    write(folder, "transfers", rank.number, found)


def given(rank: int) -> list[float]:
    """Return the numbers that a rank sends."""
    return [rank + 0.5, rank - 0.5]


def in_dtype(rank: int) -> list[int]:
    """Return the numbers that a rank sends in a dtype of :data:`DTYPES`: distinct for each rank, also as bool."""
    return [int(rank == number) for number in range(4)]


def last_digit(dtype: str, rank: int, large: int) -> float:
    """Return the number that a rank sends in ``dtype``: no narrower dtype holds it. ``large`` is the int64 number."""
    if dtype in BITS:
        return 1 + (rank + 1) * 2.0 ** (1 - BITS[dtype])
    return {"int64": large, "int32": 2**31 - 1, "int16": 2**15 - 1, "uint8": 2**8 - 1}[dtype] - rank


def kept(rank: Rank, *tensors: torch.Tensor) -> list[Any]:
    """Return the values of ``tensors``, which must be on the rank's device."""
    for each in tensors:
        assert each.device == rank.device, f"a result is on {each.device}, and the rank on {rank.device}"
    return [each.tolist() for each in tensors]


def _broadcast(rank: Rank, numbers: Any, root: int) -> Any:
    sent = rank.tensor(numbers)
    dist.broadcast(sent, root)
    return kept(rank, sent)[0]


def _gather_numbers(rank: Rank, numbers: Any) -> Any:
    return kept(rank, *rank.collective.all_gather(rank.tensor(numbers)))


def _broadcast_as_carried(rank: Rank, own: torch.Tensor, root: int) -> torch.Tensor:
    """Broadcast a tensor in the form in which the library carries it."""
    sent = rank.collective.as_carried(own).clone()
    dist.broadcast(sent, root)
    return rank.collective.as_sent(sent, own)


def _broadcast_dtype(rank: Rank, dtype: torch.dtype) -> Any:
    own = rank.tensor(in_dtype(rank.number), dtype)
    return kept(rank, _broadcast_as_carried(rank, own, rank.ranks - 1).int())[0]


def _gather_dtype(rank: Rank, dtype: torch.dtype) -> Any:
    everybodys = rank.collective.all_gather(rank.tensor(in_dtype(rank.number), dtype))
    return [each.int().tolist() for each in everybodys if each.dtype == dtype]


def _gather_digits(rank: Rank, dtype: str, number: float) -> Any:
    everybodys = rank.collective.all_gather(rank.tensor([number], getattr(torch, dtype)))
    return [each.item() for each in everybodys]


def _broadcast_digits(rank: Rank, dtype: str, number: float) -> Any:
    return _broadcast_as_carried(rank, rank.tensor([number], getattr(torch, dtype)), 0).item()


def _reduce_scatter_digits(rank: Rank, dtype: str) -> Any:
    whole = rank.tensor(digits(dtype, rank.number), getattr(torch, dtype))
    share = torch.empty(whole.numel() // rank.ranks, device=rank.device, dtype=whole.dtype)
    dist.reduce_scatter_tensor(share, whole)
    return kept(rank, share)[0]


def _gather_twice(rank: Rank) -> Any:
    """Gather twice, and return the first result."""
    first = rank.collective.all_gather(rank.tensor(given(rank.number)))
    rank.collective.all_gather(rank.tensor([-1.0, -1.0]))
    return kept(rank, *first)


def _gather_behind_others(rank: Rank) -> Any:
    """Gather a slice with a storage offset into a slice with a storage offset; return the whole destination."""
    flat = torch.full((2 * rank.ranks + 3,), -1.0, device=rank.device)
    dist.all_gather_into_tensor(flat[3:], rank.tensor([-2.0, *given(rank.number)])[1:])
    return kept(rank, flat)[0]


def _broadcast_behind_others(rank: Rank) -> Any:
    sent = rank.tensor([-1.0, -1.0, -1.0, *given(rank.number)])
    dist.broadcast(sent[3:], 0)
    return kept(rank, sent)[0]


def _gather_many(rank: Rank) -> list[float]:
    """Return the smallest and the largest error of gathering a large tensor."""
    numbers = many(rank)
    flat = torch.empty(MANY * rank.ranks, device=rank.device)
    dist.all_gather_into_tensor(flat, numbers + rank.number)
    return extremes(flat - torch.cat([numbers + each for each in range(rank.ranks)]))


def _broadcast_many(rank: Rank) -> list[float]:
    numbers = many(rank, MOST)
    sent = numbers + rank.number
    dist.broadcast(sent, rank.ranks - 1)
    return extremes(sent - numbers - (rank.ranks - 1))


def _reduce_scatter_many(rank: Rank) -> list[float]:
    numbers = many(rank)
    share = torch.empty(MANY, device=rank.device)
    dist.reduce_scatter_tensor(share, torch.cat([numbers + each for each in range(rank.ranks)]) * (rank.number + 1))
    return extremes(share - (numbers + rank.number) * sum(range(1, rank.ranks + 1)))


def _gather(rank: Rank) -> Any:
    own = rank.tensor(given(rank.number))
    everybodys = [torch.empty_like(own) for _ in range(rank.ranks)]
    dist.all_gather(everybodys, own)
    return kept(rank, *everybodys)


def _gather_flat(rank: Rank) -> Any:
    flat = torch.empty(2 * rank.ranks, device=rank.device)
    dist.all_gather_into_tensor(flat, rank.tensor(given(rank.number)))
    return kept(rank, flat)[0]


def _gather_by_the_backend(rank: Rank) -> Any:
    # The tensor is not contiguous.
    return kept(rank, *rank.collective.all_gather(rank.tensor([[each, 0.0] for each in given(rank.number)])[:, 0]))


def _reduce_scatter(rank: Rank) -> Any:
    share = torch.empty(2, device=rank.device)
    dist.reduce_scatter_tensor(share, torch.arange(2.0 * rank.ranks, device=rank.device) * (rank.number + 1))
    return kept(rank, share)[0]


def _average_scatter(rank: Rank) -> Any:
    """Let the library itself average, as FSDP2 does."""
    share = torch.empty(2, device=rank.device)
    whole = torch.arange(2.0 * rank.ranks, device=rank.device) * (rank.number + 1) * rank.ranks
    dist.reduce_scatter_tensor(share, whole, dist.ReduceOp.AVG)
    return kept(rank, share)[0]


def _gather_objects(rank: Rank) -> Any:
    objects: list[Any] = [None] * rank.ranks
    dist.all_gather_object(objects, {"rank": rank.number, "text": "ü" * rank.number})
    return objects


def _broadcast_objects(rank: Rank) -> Any:
    message = [f"from {rank.number}", rank.number]
    dist.broadcast_object_list(message, 1)
    return message


def exchange(scenario: Scenario, folder: Path) -> None:
    """Run each of :data:`EXCHANGES`; each rank reports its result or the error."""
    rank = meet(scenario)
    found = {name: attempt(partial(way, rank)) for name, way in EXCHANGES.items()}
    write(folder, "transfers.exchange", rank.number, found)


def uneven(sender: int, receiver: int, ranks: int) -> list[float]:
    """Return the numbers from one rank to another: a different length for each receiver, and none to itself."""
    return [10.0 * sender + receiver] * (2 * ((receiver - sender) % ranks))


def _gather_to_one(rank: Rank) -> Any:
    own = rank.tensor(given(rank.number))
    everybodys = [torch.empty_like(own) for _ in range(rank.ranks)] if rank.number == 1 else None
    dist.gather(own, everybodys, dst=1)
    return kept(rank, *(everybodys or []))


def _scatter(rank: Rank) -> Any:
    share = torch.empty(2, device=rank.device)
    shares = [rank.tensor(given(each)) for each in range(rank.ranks)] if rank.number == 1 else None
    dist.scatter(share, shares, src=1)
    return kept(rank, share)[0]


def _all_to_all(rank: Rank) -> Any:
    arrived = torch.empty(rank.ranks, device=rank.device)
    dist.all_to_all_single(arrived, torch.arange(float(rank.ranks), device=rank.device) + 10 * rank.number)
    return kept(rank, arrived)[0]


def _all_to_all_uneven(rank: Rank) -> Any:
    sent = [uneven(rank.number, other, rank.ranks) for other in range(rank.ranks)]
    sizes = [len(uneven(other, rank.number, rank.ranks)) for other in range(rank.ranks)]
    arrived = torch.empty(sum(sizes), device=rank.device)
    numbers = rank.tensor([number for each in sent for number in each])
    dist.all_to_all_single(arrived, numbers, sizes, [len(each) for each in sent])
    return kept(rank, arrived)[0]


def _send_around(rank: Rank) -> Any:
    """Send to the next rank, and receive from the previous one."""
    arrived = torch.empty(2, device=rank.device)
    following, before = (rank.number + 1) % rank.ranks, (rank.number - 1) % rank.ranks
    sends = [dist.P2POp(dist.isend, rank.tensor(given(rank.number)), following)]
    for work in dist.batch_isend_irecv([*sends, dist.P2POp(dist.irecv, arrived, before)]):
        work.wait()
    return kept(rank, arrived)[0]


def _broadcast_transposed(rank: Rank) -> Any:
    """Broadcast a matrix that is not contiguous."""
    matrix = (torch.arange(6.0, device=rank.device).view(2, 3) + 10 * rank.number).t()
    dist.broadcast(matrix, 1)
    return kept(rank, matrix)[0]


def _broadcast_part(rank: Rank) -> Any:
    """Broadcast every second element of a tensor; return all of them."""
    whole = torch.full((6,), float(rank.number), device=rank.device)
    dist.broadcast(whole[::2], 1)
    return kept(rank, whole)[0]


EXCHANGES: Mapping[str, Callable[[Rank], Any]] = MappingProxyType(
    {
        "gathered by rank 1": _gather_to_one,
        "scattered by rank 1": _scatter,
        "all to all": _all_to_all,
        "all to all, uneven": _all_to_all_uneven,
        "broadcast transposed": _broadcast_transposed,
        "broadcast of a part": _broadcast_part,
        "sent around": _send_around,
    }
)
"""Calls that a library may lack; they then raise."""
