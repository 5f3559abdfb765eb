"""A card that another process holds."""

from __future__ import annotations

import pytest
from tests.backends.hpu.gaudi import GAUDI
from tests.backends.simulation.runs.fixtures import Start
from tests.backends.simulation.runs.jobs import Job

from northbridge_cpu_sim import Server


@pytest.fixture
def holder(start: Start) -> Job:
    """A process that holds the first card."""
    job = start("hold.py", afresh=True)  # it is told by its command line
    job.wait_for("holds module 0\n")
    return job


def test_the_error_names_who_holds_it(start: Start, holder: Job) -> None:
    job = start("train.py", "devices=1")

    assert job.end() == 1, job.said
    assert (
        "northbridge.errors.DeviceBusyError: device 0 of 'hpu' (HLS_MODULE_ID=0) could not be"
        f" acquired: synStatus=20 [Device already acquired] Device acquire failed; process {holder.process.pid}"
        " (python hold.py) holds it. Fix: wait for it or end it, or set HABANA_VISIBLE_MODULES to"
        " free modules (1, 2, 3, 4, 5, 6, 7)"
    ) in job.said, job.said
    GAUDI.page.assert_shown("NORTHBRIDGE_SIMULATE=hpu python hold.py", holder.said)
    GAUDI.page.assert_shown("NORTHBRIDGE_SIMULATE=hpu python train.py devices=1", job.said)


@pytest.mark.usefixtures("holder")
def test_no_other_rank_waits_for_the_one_that_has_no_card(start: Start, server: Server) -> None:
    job = start("train.py", "devices=2")

    assert job.end() == 1, job.said  # which waits for all processes of the job
    assert "northbridge.errors.DeviceBusyError: device 0 of 'hpu'" in job.said
    assert server.holder(5) is None  # module 1


def test_it_is_free_as_soon_as_the_holder_has_been_killed(start: Start, holder: Job) -> None:
    holder.kill()

    job = start("train.py", "devices=1")

    assert job.end() == 0, job.said
    assert "rank 0: node 0, card 6, module 0\n" in job.said
