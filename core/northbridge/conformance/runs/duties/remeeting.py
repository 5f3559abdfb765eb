"""End the process group, and meet again in another one."""

from __future__ import annotations

import os
from pathlib import Path

import torch.distributed as dist

from northbridge.conformance.runs.duties.waiting import pass_barrier
from northbridge.conformance.runs.findings import write
from northbridge.conformance.runs.meeting import Rank, meet
from northbridge.conformance.runs.ports import reserve_port
from northbridge.conformance.runs.scenario import Scenario

GROUPS = 3
"""How many groups follow one another."""


def perform(scenario: Scenario, folder: Path) -> None:
    """Report of each group a sum over its ranks, and when this one came to its barrier and went."""
    rank = meet(scenario)
    found = [_speak(rank)]
    for _ in range(1, GROUPS):
        port = _agree_on_port(rank)
        dist.destroy_process_group()
        os.environ["MASTER_PORT"] = port
        rank = meet(scenario)
        found.append(_speak(rank))
    write(folder, "remeeting", rank.number, {"groups": found})


def _speak(rank: Rank) -> dict[str, float]:
    total = rank.collective.all_reduce(rank.tensor([10.0**rank.number]))
    return {"sum": total.item(), **pass_barrier(rank, rank.ranks - 1)}


def _agree_on_port(rank: Rank) -> str:
    """Return a port of rank 0's: whoever comes first to the old one might still find the store of the old group."""
    port = rank.tensor([float(reserve_port() if rank.number == 0 else 0)])
    dist.broadcast(port, 0)
    return str(int(port.item()))
