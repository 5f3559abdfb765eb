"""Exchange tensors of the chip in the ways that a library may lack, through torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
import torch.distributed as dist

from northbridge.conformance.rank_programs.transfers import given, kept
from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.meeting import Rank, attempt, meet
from northbridge.conformance.runs.scenario import Scenario


def perform(scenario: Scenario, folder: Path) -> None:
    """Exchange in each of :data:`WAYS`; each rank reports what it got, or what was refused."""
    rank = meet(scenario)
    found = {name: attempt(partial(way, rank)) for name, way in WAYS.items()}
    write(folder, "exchanges", rank.number, found)


def uneven(sender: int, receiver: int, ranks: int) -> list[float]:
    """Return what one rank sends to another where each gets another number of numbers, and itself none."""
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
    given = rank.tensor([number for each in sent for number in each])
    dist.all_to_all_single(arrived, given, sizes, [len(each) for each in sent])
    return kept(rank, arrived)[0]


def _send_around(rank: Rank) -> Any:
    """Send to the next rank, and receive from the one before."""
    arrived = torch.empty(2, device=rank.device)
    following, before = (rank.number + 1) % rank.ranks, (rank.number - 1) % rank.ranks
    sends = [dist.P2POp(dist.isend, rank.tensor(given(rank.number)), following)]
    for work in dist.batch_isend_irecv([*sends, dist.P2POp(dist.irecv, arrived, before)]):
        work.wait()
    return kept(rank, arrived)[0]


def _broadcast_transposed(rank: Rank) -> Any:
    """Broadcast a matrix whose rows do not lie one after another."""
    matrix = (torch.arange(6.0, device=rank.device).view(2, 3) + 10 * rank.number).t()
    dist.broadcast(matrix, 1)
    return kept(rank, matrix)[0]


def _broadcast_part(rank: Rank) -> Any:
    """Broadcast every other number of a tensor; return all of them."""
    whole = torch.full((6,), float(rank.number), device=rank.device)
    dist.broadcast(whole[::2], 1)
    return kept(rank, whole)[0]


WAYS: Mapping[str, Callable[[Rank], Any]] = MappingProxyType(
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
"""What a library may lack, so that it raises."""
