"""Process groups that follow one another in the same processes."""

from __future__ import annotations

import pytest

from northbridge.conformance.runs.duties.remeeting import GROUPS
from northbridge.conformance.runs.scenario import Scenario, run
from northbridge.conformance.suite import Suite, require_devices, shows
from northbridge.conformance.tests.collective.ranks import Facts


class FollowingGroups(Suite):
    """Where two ranks end their process group they can meet in another one, as often as they like."""

    advice = (
        "Look at the Collective's initialize(): what it keeps of the first group is no use to the next, which has a"
        " store of its own; and at what the vendor's library leaves behind when its process group is destroyed."
    )

    @pytest.fixture
    def ranks(self, backend: str, environ: dict[str, str]) -> Facts:
        """What both ranks have found out, in a run of its own: who cannot meet again keeps nobody else from it."""
        require_devices(backend, 2)
        return run(Scenario(backend, "", ("remeeting",), 2, launch="ranks"), environ).ranks("remeeting")

    @shows("sum_all_reduce")
    def test_each_sum_is_that_of_both_ranks(self, ranks: Facts) -> None:
        assert [[group["sum"] for group in each["groups"]] for each in ranks] == [[11.0] * GROUPS] * 2

    @shows("barrier")
    def test_nobody_passes_a_barrier_before_the_other_rank_has_come(self, ranks: Facts) -> None:
        for first, last in zip(*(each["groups"] for each in ranks), strict=True):
            assert min(first["went"], last["went"]) >= last["came"]
