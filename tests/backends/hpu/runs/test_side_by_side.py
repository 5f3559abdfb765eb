"""Two jobs of four cards on one server, whose scripts import the vendor's package first."""

from __future__ import annotations

from tests.backends.hpu.gaudi import GAUDI
from tests.backends.simulation.runs.fixtures import Start

from northbridge_cpu_sim import Server

HALVES = ("0,1,2,3", "4,5,6,7")
COMMAND = "HABANA_VISIBLE_MODULES={} NORTHBRIDGE_SIMULATE=hpu python side_by_side.py"


def test_two_jobs_share_a_server_and_meet_in_no_port(start: Start, server: Server) -> None:
    jobs = [start("side_by_side.py", afresh=True, HABANA_VISIBLE_MODULES=half) for half in HALVES]
    for job in jobs:
        job.wait_for("trained\n")

    holders = [server.holder(card) for card in range(8)]

    assert len(set(holders) - {None}) == 8
    jobs[0].press_enter()
    jobs[0].wait_for("held now: modules 0 1 2 3 4 5 6 7\n")
    jobs[1].press_enter()
    assert [job.end() for job in jobs] == [0, 0], "\n".join(job.said for job in jobs)
    assert [server.holder(card) for card in range(8)] == [None] * 8
    for job, half in zip(jobs, HALVES, strict=True):
        GAUDI.page.assert_shown(COMMAND.format(half), job.said)
