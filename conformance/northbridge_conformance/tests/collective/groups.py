"""Collectives within groups of some ranks, and successive process groups in the same processes."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from northbridge_conformance.optional_pytest import pytest
from northbridge_conformance.run import run
from northbridge_conformance.runs.processes import reserve_port
from northbridge_conformance.runs.scenario import Scenario, reference, write
from northbridge_conformance.suite import Suite, require_devices, shows
from northbridge_conformance.tests.collective.ranks import Facts, Rank, Ranks, attempt, meet, results_of
from northbridge_conformance.tests.collective.waits import pass_barrier

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


def communicate(scenario: Scenario, folder: Path) -> None:
    """Sum, average, broadcast, gather and scatter within each group, and wait for its ranks; each rank reports."""
    rank = meet(scenario)
    found: dict[str, Any] = {}
    for name, groups in DIVISIONS[rank.ranks].items():
        for ranks in groups:
            group: Any = dist.new_group(ranks)  # called by all ranks, also by those outside the group
            if rank.number in ranks:
                found[name] = attempt(partial(_speak, rank, ranks, group))
        dist.barrier()
    write(folder, "communicate", rank.number, found)


def _speak(rank: Rank, ranks: list[int], group: Any) -> dict[str, Any]:
    weight = float(4**rank.number)  # the base-4 digits of a sum show which ranks contributed
    total = rank.collective.all_reduce(rank.tensor([weight]), "sum", group)
    average = rank.collective.all_reduce(rank.tensor([weight]), "mean", group)
    sent = rank.tensor([weight])
    dist.broadcast(sent, max(ranks), group=group)
    gathered = rank.collective.all_gather(rank.tensor([weight]), group)
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
        "gathered": torch.cat(gathered).tolist(),
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
    write(folder, "meet_again", rank.number, {"groups": found, "many": attempt(partial(_sum_in_many, rank))})


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


class GroupsTests(Ranks):
    """A collective within a group reaches exactly the ranks of the group, in their order."""

    advice = (
        "Look at how the vendor's process group is made of a store, a rank and a size: those of the group, and not of"
        " the run. The backend's Collective hands a group on to torch."
    )
    step = "communicate"

    def check(self, ranks: Facts, devices: int, fact: str, right: Callable[[list[int]], Any]) -> None:
        """Compare a ``fact`` of each rank of each group with ``right``, applied to the numbers of the group's ranks."""
        for group, members, found in groups_of(ranks, devices):
            assert [each[fact] for each in found] == [right([4**rank for rank in members])] * len(members), group

    @shows("sum_all_reduce")
    def test_all_reduce_sums_over_the_group(self, ranks: Facts, devices: int) -> None:
        self.check(ranks, devices, "sum", sum)

    def test_mean_divides_by_the_group_size(self, ranks: Facts, devices: int) -> None:
        self.check(ranks, devices, "mean", lambda given: pytest.approx(sum(given) / len(given), rel=1e-6))

    @shows("broadcast")
    def test_broadcast_from_the_last_rank_of_the_group(self, ranks: Facts, devices: int) -> None:
        self.check(ranks, devices, "sent", max)

    @shows("all_gather")
    def test_all_gather_has_the_ranks_of_the_group_in_order(self, ranks: Facts, devices: int) -> None:
        self.check(ranks, devices, "gathered", list)

    def test_reduce_to_the_last_rank_of_the_group(self, ranks: Facts, devices: int) -> None:
        for group, members, found in groups_of(ranks, devices):
            assert found[-1]["reduced"] == sum(4**rank for rank in members), group

    def test_reduce_scatter_sums_over_the_group(self, ranks: Facts, devices: int) -> None:
        for group, members, found in groups_of(ranks, devices):
            total = sum(4**rank for rank in members)
            right = [total * (place + 1) for place in range(len(members))]
            assert [each["share"] for each in found] == right, group

    @shows("barrier")
    def test_barrier_waits_for_the_last_rank_of_the_group(self, ranks: Facts, devices: int) -> None:
        for group, _, found in groups_of(ranks, devices):
            assert min(each["went"] for each in found) >= found[-1]["came"], group

    def test_get_rank_is_the_rank_in_the_group(self, ranks: Facts, devices: int) -> None:
        for group, members, found in groups_of(ranks, devices):
            assert [each["number"] for each in found] == list(range(len(members))), group


def groups_of(ranks: Facts, devices: int) -> Iterator[tuple[str, list[int], list[Any]]]:
    """Yield each group's name, its ranks in torch's (ascending) order, and their findings."""
    for name, groups in DIVISIONS[devices].items():
        for members in map(sorted, groups):
            yield f"{name}: {members}", members, results_of([ranks[rank] for rank in members], name)


class RepeatedGroups(Suite):
    """After two ranks end their process group, they can meet in another one, any number of times."""

    advice = (
        "Look at the Collective's initialize(): the next group has a store of its own, so nothing of the"
        " first may be kept. The ports after MASTER_PORT belong to another job: the library must listen on ports"
        " that the system chooses. Look also at what the vendor's library leaves behind when its process group is"
        " destroyed."
    )

    @pytest.fixture
    def ranks(self, backend: str, environ: dict[str, str]) -> Facts:
        """Return both ranks' findings from a separate run, so that a failure to meet again affects no other test."""
        require_devices(backend, 2)
        return run(Scenario(backend, "", (reference(meet_again),), 2, launch="ranks"), environ).ranks("meet_again")

    @shows("sum_all_reduce")
    def test_each_group_sums_over_both_ranks(self, ranks: Facts) -> None:
        assert [[group["sum"] for group in each["groups"]] for each in ranks] == [[11.0] * FOLLOWING] * 2

    @shows("barrier")
    def test_barrier_waits_for_the_other_rank(self, ranks: Facts) -> None:
        for first, last in zip(*(each["groups"] for each in ranks), strict=True):
            assert min(first["went"], last["went"]) >= last["came"]

    @shows("sum_all_reduce")
    def test_the_last_of_many_groups_still_works(self, ranks: Facts) -> None:
        assert results_of(ranks, "many") == [[2.0, 2.0]] * 2
