"""Collectives within groups of some ranks, and successive process groups in the same processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from northbridge_conformance.rank_programs import groups as program
from northbridge_conformance.run import run
from northbridge_conformance.runs.scenario import Scenario
from northbridge_conformance.suite import Suite, require_devices, shows
from northbridge_conformance.tests.collective.ranks import Facts, Ranks, everybodys


class GroupsTests(Ranks):
    """A collective within a group reaches exactly the ranks of the group, in their order."""

    advice = (
        "Look at how the vendor's process group is made of a store, a rank and a size: those of the group, and not of"
        " the run. The backend's Collective hands a group on to torch."
    )
    step = "groups"

    def check(self, ranks: Facts, devices: int, fact: str, right: Callable[[list[int]], Any]) -> None:
        """Compare a ``fact`` of each rank of each group with ``right``, applied to the numbers of the group's ranks."""
        for group, members, found in groups_of(ranks, devices):
            assert [each[fact] for each in found] == [right([4**rank for rank in members])] * len(members), group

    @shows("sum_all_reduce")
    def test_a_sum_is_that_of_the_group(self, ranks: Facts, devices: int) -> None:
        self.check(ranks, devices, "sum", sum)

    def test_a_mean_is_divided_by_the_ranks_of_the_group(self, ranks: Facts, devices: int) -> None:
        self.check(ranks, devices, "mean", lambda given: pytest.approx(sum(given) / len(given), rel=1e-6))

    @shows("broadcast")
    def test_a_broadcast_reaches_the_group_from_its_last_rank(self, ranks: Facts, devices: int) -> None:
        self.check(ranks, devices, "sent", max)

    @shows("all_gather")
    def test_a_gather_has_the_ranks_of_the_group_in_their_order(self, ranks: Facts, devices: int) -> None:
        self.check(ranks, devices, "gathered", list)

    def test_a_sum_reaches_the_last_rank_of_the_group(self, ranks: Facts, devices: int) -> None:
        for group, members, found in groups_of(ranks, devices):
            assert found[-1]["reduced"] == sum(4**rank for rank in members), group

    def test_a_sum_that_is_scattered_is_that_of_the_group(self, ranks: Facts, devices: int) -> None:
        for group, members, found in groups_of(ranks, devices):
            total = sum(4**rank for rank in members)
            right = [total * (place + 1) for place in range(len(members))]
            assert [each["share"] for each in found] == right, group

    @shows("barrier")
    def test_no_rank_passes_a_barrier_before_the_last(self, ranks: Facts, devices: int) -> None:
        for group, _, found in groups_of(ranks, devices):
            assert min(each["went"] for each in found) >= found[-1]["came"], group

    def test_each_rank_has_its_number_in_the_group(self, ranks: Facts, devices: int) -> None:
        for group, members, found in groups_of(ranks, devices):
            assert [each["number"] for each in found] == list(range(len(members))), group


def groups_of(ranks: Facts, devices: int) -> Iterator[tuple[str, list[int], list[Any]]]:
    """Yield each group's name, its ranks in torch's (ascending) order, and their findings."""
    for name, groups in program.DIVISIONS[devices].items():
        for members in map(sorted, groups):
            yield f"{name}: {members}", members, everybodys([ranks[rank] for rank in members], name)


class FollowingGroups(Suite):
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
        return run(Scenario(backend, "", ("groups.meet_again",), 2, launch="ranks"), environ).ranks("groups.meet_again")

    @shows("sum_all_reduce")
    def test_each_sum_is_that_of_both_ranks(self, ranks: Facts) -> None:
        assert [[group["sum"] for group in each["groups"]] for each in ranks] == [[11.0] * program.FOLLOWING] * 2

    @shows("barrier")
    def test_nobody_passes_a_barrier_before_the_other_rank_has_come(self, ranks: Facts) -> None:
        for first, last in zip(*(each["groups"] for each in ranks), strict=True):
            assert min(first["went"], last["went"]) >= last["came"]

    @shows("sum_all_reduce")
    def test_the_last_of_many_groups_sums(self, ranks: Facts) -> None:
        assert everybodys(ranks, "many") == [[2.0, 2.0]] * 2
