"""Barriers, late or missing ranks, and collectives in progress."""

from __future__ import annotations

import pytest

from northbridge_conformance.rank_programs import waits
from northbridge_conformance.run import run
from northbridge_conformance.runs.scenario import Scenario
from northbridge_conformance.suite import require_devices, shows
from northbridge_conformance.tests.collective.ranks import Facts, Ranks, everybodys


class Waits(Ranks):
    """A result is read only after it is complete, and a rank passes a barrier only after all ranks have come."""

    advice = (
        "Look at what the vendor's process group returns: a Work that owns its tensors, and whose wait() has later"
        " kernels wait for the collective. And look at the Collective's barrier()."
    )
    step = "waits"

    @shows("barrier")
    @pytest.mark.parametrize("late", [0, -1], ids=["the first", "the last"])
    def test_nobody_passes_a_barrier_before_a_late_rank_has_come(self, ranks: Facts, devices: int, late: int) -> None:
        found = everybodys(ranks, f"barrier, rank {late % devices} late")

        assert min(each["went"] for each in found) >= found[late]["came"]

    @shows("barrier")
    def test_nobody_is_kept_at_a_barrier_when_all_have_come(self, ranks: Facts, devices: int) -> None:
        for late in (0, devices - 1):
            found = everybodys(ranks, f"barrier, rank {late} late")
            assert max(each["went"] for each in found) < max(each["came"] for each in found) + waits.PATIENCE_S

    @shows("{claim}")
    @pytest.mark.parametrize(
        ("collective", "claim"),
        [
            ("all_reduce", "sum_all_reduce"),
            ("all_gather", "all_gather"),
            ("broadcast", "broadcast"),
            ("torch's all_gather", "all_gather"),
        ],
    )
    def test_what_is_read_at_once_is_there_though_a_rank_comes_late(
        self, ranks: Facts, devices: int, collective: str, claim: str
    ) -> None:
        twice = [2 * (rank + 1) for rank in range(devices)]
        right = {"sum_all_reduce": [sum(twice)] * 3, "all_gather": twice, "broadcast": [twice[-1]]}

        assert everybodys(ranks, f"{collective}, read at once") == [right[claim]] * devices

    @shows("sum_all_reduce")
    def test_nothing_is_called_done_before_the_last_rank_has_come(self, ranks: Facts, devices: int) -> None:
        found = everybodys(ranks, "asked before it is there")

        # A delayed rank that asks after the last one has come proves nothing.
        assert not any(each["early"] for each in found if each["asked"] < found[-1]["came"])
        assert [(each["sum"], each["afterwards"]) for each in found] == [(devices, True)] * devices

    @shows("sum_all_reduce")
    def test_asynchronous_collectives_own_dropped_temporaries(self, ranks: Facts, devices: int) -> None:
        sums = [[sum(number + rank for rank in range(devices))] * 3 for number in range(waits.PENDING)]

        assert everybodys(ranks, "temporaries") == [sums] * devices

    @shows("sum_all_reduce", "broadcast")
    def test_many_under_way_are_waited_for_in_any_order(self, ranks: Facts, devices: int) -> None:
        sums = [sum(number + rank for rank in range(devices)) for number in range(waits.PENDING)]
        right = [number if number % 2 else total for number, total in enumerate(sums)]

        assert everybodys(ranks, "waited for in turn") == [right] * devices

    @shows("sum_all_reduce")
    def test_what_is_computed_between_two_is_seen_by_the_second(self, ranks: Facts, devices: int) -> None:
        course = [1]
        for _ in range(waits.CHAIN):
            course.append(course[-1] * devices + 1)

        assert everybodys(ranks, "one after another") == [course[1:]] * devices


class MissingRank(Ranks):
    """If a rank never comes, the others end within the time limit, and the flight recorder names it."""

    advice = (
        "Look at the Collective's initialize(): the library has to be given the timeout, and to raise where it is"
        " over. `northbridge hang` says which rank was missing, for any library whose calls go through"
        " torch.distributed."
    )
    step = "waits.missing_rank"

    @pytest.fixture
    def ranks(self, backend: str, devices: int, environ: dict[str, str]) -> Facts:
        """Return the findings of every rank, from a separate run with a short time limit and recorded calls."""
        require_devices(backend, devices)
        return run(Scenario(backend, "", (self.step,), devices, launch="ranks"), environ).ranks(self.step)

    @pytest.mark.parametrize("call", ["all_reduce", "barrier"])
    def test_the_others_end_with_an_error_within_the_limit(self, ranks: Facts, call: str) -> None:
        for found in (each[call] for each in ranks[:-1]):
            assert found["error"], f"it ended after {found['seconds']:.1f} s, and said nothing"
            assert found["seconds"] < waits.BOUND_S

    def test_the_rank_that_never_came_is_named(self, ranks: Facts, devices: int) -> None:
        missing = devices - 1

        blamed = [each for each in ranks[-1]["found"] if each["kind"] == "not called"]

        assert [each["blamed"] for each in blamed] == [[missing]]
        assert blamed[0]["text"].startswith(f"rank {missing} of group 0")
        assert "has not called" in blamed[0]["text"]
        assert "all_reduce" in blamed[0]["text"]
