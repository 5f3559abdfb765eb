"""Cards that processes take from each other, share out, and give back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.backends.hpu.gaudi import GAUDI
from tests.backends.simulation.runs.doctor import ask
from tests.backends.simulation.runs.fixtures import Start
from tests.backends.simulation.runs.jobs import Job

from northbridge_cpu_sim import Server

HALVES = ("0,1,2,3", "4,5,6,7")
COMMAND = "HABANA_VISIBLE_MODULES={} NORTHBRIDGE_SIMULATE=hpu python side_by_side.py"


@pytest.fixture
def holder(start: Start) -> Job:
    """A process that holds the first card."""
    job = start("hold.py", afresh=True)  # it is told by its command line
    job.wait_for("holds module 0\n")
    return job


@pytest.mark.shows("a card's device file carries its index")
def test_who_holds_a_card_is_named_until_it_is_killed(
    environment: dict[str, str], start: Start, holder: Job, server: Server
) -> None:
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

    # No other rank waits for the one that has no card.
    job = start("train.py", "devices=2")
    assert job.end() == 1, job.said  # which waits for all processes of the job
    assert "northbridge.errors.DeviceBusyError: device 0 of 'hpu'" in job.said
    assert server.holder(5) is None  # module 1

    said = ask(GAUDI, environment, "--acquire", "--json", HABANA_VISIBLE_MODULES="0")
    (report,) = json.loads(said.stdout)["backends"]
    assert f"process {holder.process.pid} (python hold.py) holds it" in report["acquire_problem"]
    assert report["machine"]["processes"] == {str(holder.process.pid): "holds card 6: python hold.py"}
    assert said.returncode == 1

    holder.kill()
    job = start("train.py", "devices=1")
    assert job.end() == 0, job.said
    assert "rank 0: node 0, card 6, module 0\n" in job.said


@pytest.mark.parametrize("module", ["abc", "9"])
def test_the_doctor_tells_a_wrong_choice_of_modules(environment: dict[str, str], module: str) -> None:
    said = ask(GAUDI, environment, "--json", HABANA_VISIBLE_MODULES=module)

    found: dict[str, Any] = json.loads(said.stdout)
    told = [each["what"] for each in found["advice"] if each["level"] == "wrong"]
    assert told[0].startswith(f"HABANA_VISIBLE_MODULES={module!r} ")
    assert not any("upgrade the plugin" in each for each in told)
    assert said.returncode == 1


def test_two_jobs_share_a_server_and_meet_in_no_port(start: Start, server: Server) -> None:
    """Two jobs of four cards, whose scripts import the vendor's package first."""
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


SPAWN = """
import os

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel

from northbridge_hpu.simulated.machine import server

class Model(BoringModel):
    def on_train_end(self):
        holders = [server().holder(card) for card in range(8)]
        mine, parents = holders.count(os.getpid()), holders.count(os.getppid())
        print(f"rank {self.global_rank} holds {mine} card, the parent {parents}\\n", end="")

if __name__ == "__main__":
    quiet = dict(logger=False, enable_checkpointing=False)
    Trainer(accelerator="hpu", devices=2, strategy="ddp_spawn", max_steps=2, **quiet).fit(Model())
    print("the parent has initialized torch.hpu:", torch.get_device_module("hpu").is_initialized())
"""


def test_each_spawned_rank_holds_a_card_and_the_parent_none(start: Start, tmp_path: Path) -> None:
    (tmp_path / "spawn.py").write_text(SPAWN)

    job = start(str(tmp_path / "spawn.py"))

    assert job.end() == 0, job.said
    assert "rank 0 holds 1 card, the parent 0\n" in job.said
    assert "rank 1 holds 1 card, the parent 0\n" in job.said
    assert "the parent has initialized torch.hpu: False" in job.said
