"""A rank that hangs in the middle of a training; on Gaudi the first waits at its end for every other."""

from __future__ import annotations

from tests.backends.simulation.runs.fixtures import Start


def test_the_first_ends_after_its_error(start: Start) -> None:
    job = start("hanging_rank.py")

    assert job.end() == 1, job.said  # waits for all processes of the job
    assert "rank 1 (process " in job.said
    assert "is alive and has not called it" in job.said
