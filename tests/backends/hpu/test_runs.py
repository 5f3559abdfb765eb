"""Runs on the simulated Gaudi as users start them: its cards, its modes, a rank that hangs, and wrong environments."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
from pathlib import Path

import pytest
from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.jobs import Start, ask_doctor
from typer.testing import CliRunner

from northbridge.cli.app import app
from northbridge_cpu_sim import Server

HALVES = ("0,1,2,3", "4,5,6,7")


@pytest.mark.shows("a card's device file carries its index")
def test_who_holds_a_card_is_named_until_it_is_killed(
    sim: SimChip, environment: dict[str, str], start: Start, server: Server
) -> None:
    holder = start("hold.py", afresh=True)  # it is told by its command line
    holder.wait_for("holds module 0\n")
    job = start("train.py", "devices=1")
    assert job.end() == 1, job.said
    assert (
        "northbridge.errors.DeviceBusyError: device 0 of 'hpu' (HLS_MODULE_ID=0) could not be"
        f" acquired: synStatus=20 [Device already acquired] Device acquire failed; process {holder.process.pid}"
        " (python hold.py) holds it. Fix: wait for it or end it, or set HABANA_VISIBLE_MODULES to"
        " free modules (1, 2, 3, 4, 5, 6, 7)"
    ) in job.said, job.said
    sim.page.assert_shown("NORTHBRIDGE_SIMULATE=hpu python hold.py", holder.said)
    sim.page.assert_shown("NORTHBRIDGE_SIMULATE=hpu python train.py devices=1", job.said)

    # No other rank waits for the one that has no card.
    job = start("train.py", "devices=2")
    assert job.end() == 1, job.said  # which waits for all processes of the job
    assert "northbridge.errors.DeviceBusyError: device 0 of 'hpu'" in job.said
    assert server.holder(5) is None  # module 1

    said = ask_doctor(sim, environment, "--acquire", "--json", HABANA_VISIBLE_MODULES="0")
    (report,) = json.loads(said.stdout)["backends"]
    assert f"process {holder.process.pid} (python hold.py) holds it" in report["acquire_problem"]
    assert report["machine"]["processes"] == {str(holder.process.pid): "holds card 6: python hold.py"}
    assert said.returncode == 1

    holder.kill()
    assert "rank 0: node 0, card 6, module 0\n" in start("train.py", "devices=1").succeed()


@pytest.mark.parametrize("module", ["abc", "9"])
def test_the_doctor_tells_a_wrong_choice_of_modules(sim: SimChip, environment: dict[str, str], module: str) -> None:
    said = ask_doctor(sim, environment, "--json", HABANA_VISIBLE_MODULES=module)

    told = [each["what"] for each in json.loads(said.stdout)["advice"] if each["level"] == "wrong"]
    assert told[0].startswith(f"HABANA_VISIBLE_MODULES={module!r} ")
    assert not any("upgrade the plugin" in each for each in told)
    assert said.returncode == 1


def test_two_jobs_share_a_server_and_meet_in_no_port(sim: SimChip, start: Start, server: Server) -> None:
    """Two jobs of four cards, whose scripts import the vendor's package first."""
    jobs = [start("side_by_side.py", afresh=True, HABANA_VISIBLE_MODULES=half) for half in HALVES]
    for job in jobs:
        job.wait_for("trained\n")

    holders = [server.holder(card) for card in range(8)]

    assert len(set(holders) - {None}) == 8
    jobs[0].press_enter()
    jobs[0].wait_for("held now: modules 0 1 2 3 4 5 6 7\n")
    jobs[1].press_enter()
    for job, half in zip(jobs, HALVES, strict=True):
        command = f"HABANA_VISIBLE_MODULES={half} NORTHBRIDGE_SIMULATE=hpu python side_by_side.py"
        sim.page.assert_shown(command, job.succeed())
    assert [server.holder(card) for card in range(8)] == [None] * 8


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

    said = start("spawn.py").succeed()

    assert "rank 0 holds 1 card, the parent 0\n" in said
    assert "rank 1 holds 1 card, the parent 0\n" in said
    assert "the parent has initialized torch.hpu: False" in said


@pytest.mark.parametrize("script", ["markers.py", "fabric_markers.py"])
@pytest.mark.parametrize("mode", ["1", "0"], ids=["lazy", "eager"])
def test_steps_are_marked_in_lazy_mode_alone(sim: SimChip, start: Start, script: str, mode: str) -> None:
    """The page says how many markers there are after each backward, step and batch of evaluation."""
    said = start(script, "devices=1", PT_HPU_LAZY_MODE=mode).succeed()

    sim.page.assert_shown(f"PT_HPU_LAZY_MODE={mode} NORTHBRIDGE_SIMULATE=hpu python {script} devices=1", said)


# A rank that hangs in the middle of a training: the first waits at its end for every other

HANGING = """
import os
import time
from datetime import timedelta

from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.strategies import DDPStrategy

class Hanging(BoringModel):
    def on_train_batch_start(self, batch, batch_idx):
        if batch_idx == 2 and self.global_rank == 1:
            print(f"process {os.getpid()} sleeps", flush=True)
            time.sleep(1000)

strategy = DDPStrategy(timeout=timedelta(seconds=2))
Trainer(accelerator="hpu", devices=2, strategy=strategy, logger=False, enable_checkpointing=False).fit(Hanging())
"""


def test_where_no_deadline_holds_the_ranks_wait_for_ever(start: Start, tmp_path: Path) -> None:
    """As on a Gaudi: the recorder names the rank, and the launcher's watch ends the job."""
    (tmp_path / "hanging.py").write_text(HANGING)
    flight = tmp_path / "flight"
    environ = {"NORTHBRIDGE_HPU_SIM_TIMEOUT": "ignored", "NORTHBRIDGE_FLIGHT_RECORDER": str(flight)}
    job = start("hanging.py", **environ)
    job.wait_for(" sleeps\n")
    time.sleep(5.0)  # more than twice the timeout
    said = CliRunner().invoke(app, ["hang", str(flight)], env={"COLUMNS": "1000"})
    sleeping = re.search(r"process (\d+) sleeps", job.said)
    assert sleeping is not None
    os.kill(int(sleeping[1]), signal.SIGKILL)

    assert said.exit_code == 1, said.output
    assert re.search(r"rank 1 of group 0 .* has not called #\d+ all_reduce .* for which rank 0 has waited", said.output)
    assert job.end(limit_s=60.0) != 0, job.said
    assert f"Child process with PID {sleeping[1]} terminated with code -9" in job.said  # the launcher's watch
    assert "timeout" not in job.said.lower()


# Wrong environments, each reported before anything can hang

TWO_NODES = ("devices=2", "num_nodes=2")
DOCUMENTED = {"MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29500", "WORLD_SIZE": "4", "NODE_RANK": "1"}


def test_a_node_says_what_is_wrong(sim: SimChip, start: Start) -> None:
    """As the page shows it; tests/core/launch/test_cluster.py has the other ways to be wrong."""
    job = start("train.py", *TWO_NODES, **{**DOCUMENTED, "WORLD_SIZE": "2"})

    assert job.end(limit_s=120) == 1, job.said  # far less than the half hour after which a process group gives up
    assert (
        f"ClusterError: WORLD_SIZE='2' on node 1 (host {socket.gethostname()}): with num_nodes=2 and devices=2 there"
        " are 4 processes. Fix: unset WORLD_SIZE, which Lightning works out, or change num_nodes= or devices="
    ) in job.said
    command = "NODE_RANK=1 WORLD_SIZE=2 NORTHBRIDGE_SIMULATE=hpu python train.py devices=2 num_nodes=2"
    sim.page.assert_shown(command, job.said)
