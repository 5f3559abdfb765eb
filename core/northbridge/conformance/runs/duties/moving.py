"""Move tensors and objects between the ranks, through torch, which hands them to the chip's library."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.meeting import Rank, attempt, meet
from northbridge.conformance.runs.scenario import Scenario

DTYPES = ("float32", "float16", "bfloat16", "int64", "uint8", "bool")
"""In which one rank's tensor is sent to all, and each rank's is gathered."""

OPTIONAL = ("gathered by rank 1", "scattered by rank 1", "all to all", "sent around")
"""What a library may lack, so that it raises."""


def perform(scenario: Scenario, folder: Path) -> None:
    """Broadcast from each rank, gather, scatter and send; each rank reports what it got."""
    rank = meet(scenario)
    found: dict[str, Any] = {"device": str(rank.device)}
    for root in range(rank.ranks):
        found[f"broadcast from {root}"] = attempt(partial(_broadcast, rank, root))
    for dtype in DTYPES:
        found[f"broadcast of {dtype}"] = attempt(partial(_broadcast_dtype, rank, getattr(torch, dtype)))
        found[f"gathered {dtype}"] = attempt(partial(_gather_dtype, rank, getattr(torch, dtype)))
    ways = {
        "gathered": _gather,
        "gathered flat": _gather_flat,
        "gathered by the backend": _gather_by_the_backend,
        "scattered sums": _reduce_scatter,
        "objects": _gather_objects,
        "message": _broadcast_objects,
        "gathered by rank 1": _gather_to_one,
        "scattered by rank 1": _scatter,
        "all to all": _all_to_all,
        "sent around": _send_around,
    }
    found |= {name: attempt(partial(way, rank)) for name, way in ways.items()}
    write(folder, "moving", rank.number, found)


def given(rank: int) -> list[float]:
    """Return what a rank gives."""
    return [rank + 0.5, rank - 0.5]


def in_dtype(rank: int) -> list[int]:
    """Return what a rank gives in a dtype of :data:`DTYPES`: no two give the same, also as bool."""
    return [int(rank == number) for number in range(4)]


def _kept(rank: Rank, *tensors: torch.Tensor) -> list[Any]:
    for each in tensors:
        assert each.device == rank.device, f"a result is on {each.device}, and the rank on {rank.device}"
    return [each.tolist() for each in tensors]


def _broadcast(rank: Rank, root: int) -> Any:
    sent = rank.tensor(given(rank.number))
    dist.broadcast(sent, root)
    return _kept(rank, sent)[0]


def _broadcast_dtype(rank: Rank, dtype: torch.dtype) -> Any:
    own = rank.tensor(in_dtype(rank.number), dtype)
    sent = rank.collective.as_carried(own).clone()
    dist.broadcast(sent, rank.ranks - 1)
    return _kept(rank, rank.collective.as_sent(sent, own).int())[0]


def _gather_dtype(rank: Rank, dtype: torch.dtype) -> Any:
    everybodys = rank.collective.all_gather(rank.tensor(in_dtype(rank.number), dtype))
    return [each.int().tolist() for each in everybodys if each.dtype == dtype]


def _gather(rank: Rank) -> Any:
    own = rank.tensor(given(rank.number))
    everybodys = [torch.empty_like(own) for _ in range(rank.ranks)]
    dist.all_gather(everybodys, own)
    return _kept(rank, *everybodys)


def _gather_flat(rank: Rank) -> Any:
    flat = torch.empty(2 * rank.ranks, device=rank.device)
    dist.all_gather_into_tensor(flat, rank.tensor(given(rank.number)))
    return _kept(rank, flat)[0]


def _gather_by_the_backend(rank: Rank) -> Any:
    # Of a tensor whose numbers do not lie one after another.
    return _kept(rank, *rank.collective.all_gather(rank.tensor([[each, 0.0] for each in given(rank.number)])[:, 0]))


def _reduce_scatter(rank: Rank) -> Any:
    share = torch.empty(2, device=rank.device)
    dist.reduce_scatter_tensor(share, torch.arange(2.0 * rank.ranks, device=rank.device) * (rank.number + 1))
    return _kept(rank, share)[0]


def _gather_objects(rank: Rank) -> Any:
    objects: list[Any] = [None] * rank.ranks
    dist.all_gather_object(objects, {"rank": rank.number, "text": "ü" * rank.number})
    return objects


def _broadcast_objects(rank: Rank) -> Any:
    message = [f"from {rank.number}", rank.number]
    dist.broadcast_object_list(message, 1)
    return message


def _gather_to_one(rank: Rank) -> Any:
    own = rank.tensor(given(rank.number))
    everybodys = [torch.empty_like(own) for _ in range(rank.ranks)] if rank.number == 1 else None
    dist.gather(own, everybodys, dst=1)
    return _kept(rank, *(everybodys or []))


def _scatter(rank: Rank) -> Any:
    share = torch.empty(2, device=rank.device)
    shares = [rank.tensor(given(each)) for each in range(rank.ranks)] if rank.number == 1 else None
    dist.scatter(share, shares, src=1)
    return _kept(rank, share)[0]


def _all_to_all(rank: Rank) -> Any:
    arrived = torch.empty(rank.ranks, device=rank.device)
    dist.all_to_all_single(arrived, torch.arange(float(rank.ranks), device=rank.device) + 10 * rank.number)
    return _kept(rank, arrived)[0]


def _send_around(rank: Rank) -> Any:
    """Send to the next rank, and receive from the one before."""
    arrived = torch.empty(2, device=rank.device)
    following, before = (rank.number + 1) % rank.ranks, (rank.number - 1) % rank.ranks
    sends = [dist.P2POp(dist.isend, rank.tensor(given(rank.number)), following)]
    for work in dist.batch_isend_irecv([*sends, dist.P2POp(dist.irecv, arrived, before)]):
        work.wait()
    return _kept(rank, arrived)[0]
