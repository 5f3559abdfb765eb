"""Calls between ranks that a library may lack, without Lightning: they are right, or raise on every rank."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
import torch.distributed as dist

from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.runs.scenario import Scenario, write
from northbridge_conformance.tests.collective.ranks import (
    Facts,
    Rank,
    Ranks,
    attempt,
    meet,
    rejections,
    results_of,
)
from northbridge_conformance.tests.collective.transfers import kept, numbers_of


def exchange(scenario: Scenario, folder: Path) -> None:
    """Run each of :data:`EXCHANGES`; each rank reports its result or the error."""
    rank = meet(scenario)
    found = {name: attempt(partial(way, rank)) for name, way in EXCHANGES.items()}
    write(folder, "exchange", rank.number, found)


def uneven(sender: int, receiver: int, ranks: int) -> list[float]:
    """Return the numbers from one rank to another: a different length for each receiver, and none to itself."""
    return [10.0 * sender + receiver] * (2 * ((receiver - sender) % ranks))


def _gather_to_one(rank: Rank) -> Any:
    own = rank.tensor(numbers_of(rank.number))
    gathered = [torch.empty_like(own) for _ in range(rank.ranks)] if rank.number == 1 else None
    dist.gather(own, gathered, dst=1)
    return kept(rank, *(gathered or []))


def _scatter(rank: Rank) -> Any:
    share = torch.empty(2, device=rank.device)
    shares = [rank.tensor(numbers_of(each)) for each in range(rank.ranks)] if rank.number == 1 else None
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
    sends = [dist.P2POp(dist.isend, rank.tensor(numbers_of(rank.number)), following)]
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


class OptionalCollectives(Ranks):
    """Scattered and all-to-all parts, point-to-point tensors and non-contiguous tensors arrive, or the call raises."""

    advice = (
        "Look at the vendor's process group: sizes of parts, which rank is meant within a group, and tensors whose"
        " numbers do not lie one after another. What the library does not do has to raise on every rank."
    )
    step = "exchange"

    @pytest.mark.parametrize("way", EXCHANGES)
    def test_optional_collective_is_right_or_all_ranks_raise(self, ranks: Facts, devices: int, way: str) -> None:
        given = [numbers_of(rank) for rank in range(devices)]
        right: dict[str, list[Any]] = {
            "gathered by rank 1": [given if rank == 1 else [] for rank in range(devices)],
            "scattered by rank 1": given,
            "all to all, uneven": [
                [number for sender in range(devices) for number in uneven(sender, rank, devices)]
                for rank in range(devices)
            ],
            "broadcast transposed": [[[10, 13], [11, 14], [12, 15]]] * devices,
            "broadcast of a part": [[1, rank] * 3 for rank in range(devices)],
            "all to all": [[10 * other + rank for other in range(devices)] for rank in range(devices)],
            "sent around": [given[rank - 1] for rank in range(devices)],
        }

        assert rejections(ranks, way) or results_of(ranks, way) == right[way]
