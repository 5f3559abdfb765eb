"""Two jobs on one machine at the same time."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from northbridge_conformance.run import new_folder, run
from northbridge_conformance.runs.scenario import Scenario
from northbridge_conformance.suite import TRAINERS, NamespaceSuite, Runs, in_each, require, require_devices
from northbridge_conformance.tests.endurance.endings import End, run_to_the_end


class SideBySide(NamespaceSuite):
    """Two jobs that train at the same time, on separate devices, each end as a job that runs alone.

    With two devices each, the ranks of each job meet as well, and must not meet those of the other.
    """

    runs: Runs = in_each(TRAINERS[0], devices=(1, 2))
    advice = (
        "Look at what processes of one machine share: files and ports of the vendor's software, a MASTER_PORT that its"
        " import writes (northbridge.keep_environment() takes it back), and cards that it takes before it is told"
        " which one."
    )

    @pytest.fixture
    def jobs(self, backend: str, namespace: str, devices: int, environ: dict[str, str]) -> list[Scenario]:
        """The two jobs, which wait for each other before they train."""
        require(namespace)
        require_devices(backend, 2 * devices)
        there = _meeting(backend, namespace, devices, tuple(sorted(environ.items())))
        return [
            Scenario(backend, namespace, ("side_by_side",), tuple(chosen), resume=str(there))
            for chosen in (range(devices), range(devices, 2 * devices))
        ]

    @pytest.fixture
    def ends(self, jobs: list[Scenario], environ: dict[str, str]) -> tuple[End, ...]:
        """The ends of both jobs."""
        ends = run_to_the_end(*jobs, environ=environ)
        for end in ends:
            assert not any(end.codes), end.said[-12000:]
        return ends

    def test_they_train_at_the_same_time(self, ends: tuple[End, ...]) -> None:
        found = [rank for end in ends for rank in end.findings["side_by_side"]]

        assert max(rank["began"] for rank in found) < min(rank["ended"] for rank in found)

    def test_each_ends_with_the_weights_of_a_job_that_is_alone(
        self, ends: tuple[End, ...], jobs: list[Scenario], environ: dict[str, str]
    ) -> None:
        first = jobs[0]
        alone = run(Scenario(first.accelerator, first.namespace, first.steps, first.devices), environ)
        for end in ends:
            assert [rank["weights"] for rank in end.findings["side_by_side"]] == alone.each("side_by_side", "weights")

    def test_each_has_no_more_ranks_than_it_asked_for(self, ends: tuple[End, ...], devices: int) -> None:
        for end in ends:
            assert [rank["world size"] for rank in end.findings["side_by_side"]] == [devices] * devices

    def test_no_process_outlives_them(self, ends: tuple[End, ...]) -> None:
        assert [end.left for end in ends] == [[], []]


@cache
def _meeting(*_: object) -> Path:
    """Return the folder in which the two jobs wait for each other; tests that share their run get the same folder."""
    return new_folder()
