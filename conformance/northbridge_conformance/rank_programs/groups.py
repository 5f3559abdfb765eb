"""Communicate within groups of some ranks, and in successive groups of all of them."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from northbridge_conformance.rank_programs.waits import pass_barrier
from northbridge_conformance.runs.findings import write
from northbridge_conformance.runs.ports import reserve_port
from northbridge_conformance.runs.ranks import Rank, attempt, meet
from northbridge_conformance.runs.scenario import Scenario

DIVISIONS: dict[int, dict[str, list[list[int]]]] = {
    2: {"one each": [[0], [1]], "backwards": [[1, 0]]},
    4: {"halves": [[0, 1], [2, 3]], "every other": [[0, 2], [1, 3]], "all but one": [[0, 1, 3]], "backwards": [[3, 0]]},
}
"""The groups for each number of ranks; a rank may be in no group. torch numbers a group's ranks in ascending order."""

FOLLOWING = 3
"""The number of successive groups."""

MANY = 80
"""The number of groups that exist at the same time: more than a table of 64 holds."""

_NEIGHBOURS = 2
"""The number of ports after MASTER_PORT that belong to another job."""

_listeners: list[socket.socket] = []


def perform(scenario: Scenario, folder: Path) -> None:
    """Sum, average, broadcast, gather and scatter within each group, and wait for its ranks; each rank reports."""
    rank = meet(scenario)
    found: dict[str, Any] = {}
    for name, groups in DIVISIONS[rank.ranks].items():
        for ranks in groups:
            group: Any = dist.new_group(ranks)  # called by all ranks, also by those outside the group
            if rank.number in ranks:
                found[name] = attempt(partial(_speak, rank, ranks, group))
        dist.barrier()
    write(folder, "groups", rank.number, found)


def _speak(rank: Rank, ranks: list[int], group: Any) -> dict[str, Any]:
    weight = float(4**rank.number)  # the base-4 digits of a sum show which ranks contributed
    total = rank.collective.all_reduce(rank.tensor([weight]), "sum", group)
    average = rank.collective.all_reduce(rank.tensor([weight]), "mean", group)
    sent = rank.tensor([weight])
    dist.broadcast(sent, max(ranks), group=group)
    everybodys = rank.collective.all_gather(rank.tensor([weight]), group)
    reduced = rank.tensor([weight])
    dist.reduce(reduced, max(ranks), group=group)
    share = rank.tensor([0.0])
    dist.reduce_scatter_tensor(share, rank.tensor([weight * (place + 1) for place in range(len(ranks))]), group=group)
    return {
        **pass_barrier(rank, max(ranks), group),
        "sum": total.item(),
        "mean": average.item(),
        "sent": sent.item(),
        "reduced": reduced.item(),
        "share": share.item(),
        "gathered": torch.cat(everybodys).tolist(),
        "number": dist.get_rank(group),
    }


def meet_again(scenario: Scenario, folder: Path) -> None:
    """Report for each group a sum over its ranks, and when this rank came to its barrier and left it.

    Also report the sum in the last of many groups. The ports after MASTER_PORT are in use, as by another job's ranks.
    """
    _use_next_ports()
    rank = meet(scenario)
    found = [_meet_barrier(rank)]
    for _ in range(1, FOLLOWING):
        port = _agree_on_port(rank)
        dist.destroy_process_group()
        os.environ["MASTER_PORT"] = port
        _use_next_ports()
        rank = meet(scenario)
        found.append(_meet_barrier(rank))
    write(folder, "groups.meet_again", rank.number, {"groups": found, "many": attempt(partial(_sum_in_many, rank))})


def _sum_in_many(rank: Rank) -> list[float]:
    """Return the sums over all ranks in the first and in the last of many groups."""
    groups: list[Any] = [dist.new_group() for _ in range(MANY)]
    return [rank.collective.all_reduce(rank.tensor([1.0]), "sum", groups[each]).item() for each in (0, -1)]


def _use_next_ports() -> None:
    """Listen at the ports after MASTER_PORT, until this process ends; rank 0's library must not need them."""
    if os.environ["RANK"] != "0":
        return
    first = int(os.environ["MASTER_PORT"]) + 1
    for port in range(first, first + _NEIGHBOURS):
        listener = socket.socket()
        with suppress(OSError):  # another process uses it
            listener.bind(("", port))
            listener.listen()
        _listeners.append(listener)


def _meet_barrier(rank: Rank) -> dict[str, float]:
    total = rank.collective.all_reduce(rank.tensor([10.0**rank.number]))
    return {"sum": total.item(), **pass_barrier(rank, rank.ranks - 1)}


def _agree_on_port(rank: Rank) -> str:
    """Return a new port that rank 0 reserved: the old port might still have the old group's store."""
    port = rank.tensor([float(reserve_port() if rank.number == 0 else 0)])
    dist.broadcast(port, 0)
    return str(int(port.item()))
