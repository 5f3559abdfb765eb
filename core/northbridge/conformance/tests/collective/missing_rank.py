"""A rank that never comes."""

from __future__ import annotations

import pytest

from northbridge.conformance.rank_programs.missing_rank import BOUND_S
from northbridge.conformance.run import run
from northbridge.conformance.runs.scenario import Scenario
from northbridge.conformance.suite import require_devices
from northbridge.conformance.tests.collective.ranks import Facts, Ranks


class MissingRank(Ranks):
    """A rank that never comes ends the others within the time limit, and the flight recorder names it."""

    advice = (
        "Look at the Collective's initialize(): the library has to be given the timeout, and to raise where it is"
        " over. Which rank was missed `northbridge hang` says, of any library whose calls go through"
        " torch.distributed."
    )
    step = "missing_rank"

    @pytest.fixture
    def ranks(self, backend: str, devices: int, environ: dict[str, str]) -> Facts:
        """What every rank has found out, in a run of its own: its time limit is short, and its calls are recorded."""
        require_devices(backend, devices)
        return run(Scenario(backend, "", (self.step,), devices, launch="ranks"), environ).ranks(self.step)

    @pytest.mark.parametrize("call", ["all_reduce", "barrier"])
    def test_the_others_end_with_an_error_within_the_limit(self, ranks: Facts, call: str) -> None:
        for found in (each[call] for each in ranks[:-1]):
            assert found["error"], f"it ended after {found['seconds']:.1f} s, and said nothing"
            assert found["seconds"] < BOUND_S

    def test_the_rank_that_never_came_is_named(self, ranks: Facts, devices: int) -> None:
        missing = devices - 1

        blamed = [each for each in ranks[-1]["found"] if each["kind"] == "not called"]

        assert [each["blamed"] for each in blamed] == [[missing]]
        assert blamed[0]["text"].startswith(f"rank {missing} of group 0")
        assert "has not called" in blamed[0]["text"]
        assert "all_reduce" in blamed[0]["text"]
