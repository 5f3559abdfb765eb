"""A rank that hangs in the middle of a training; on Gaudi the first waits at its end for every other."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

from tests.backends.simulation.runs.fixtures import Start
from typer.testing import CliRunner

from northbridge.cli.app import app

TRAIN = """
import os
import sys
import time
from datetime import timedelta

from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.strategies import DDPStrategy

from northbridge.launch import process_group

process_group.GRACE_SECONDS = float(sys.argv[2])

class Hanging(BoringModel):
    def on_train_batch_start(self, batch, batch_idx):
        if batch_idx == 2 and self.global_rank == 1:
            print(f"process {os.getpid()} sleeps", flush=True)
            time.sleep(1000)

strategy = DDPStrategy(timeout=timedelta(seconds=int(sys.argv[1])))
Trainer(accelerator="hpu", devices=2, strategy=strategy, logger=False, enable_checkpointing=False).fit(Hanging())
"""


def test_the_first_ends_after_its_error(start: Start, tmp_path: Path) -> None:
    (tmp_path / "hanging.py").write_text(TRAIN)

    job = start(str(tmp_path / "hanging.py"), "10", "3")

    assert job.end() == 1, job.said  # waits for all processes of the job
    assert "rank 1 (process " in job.said
    assert "is alive and has not called it" in job.said


def test_where_no_deadline_holds_the_ranks_wait_for_ever(start: Start, tmp_path: Path) -> None:
    """As on a Gaudi: the recorder names the rank, and the launcher's watch ends the job."""
    (tmp_path / "hanging.py").write_text(TRAIN)
    flight = tmp_path / "flight"
    environ = {"NORTHBRIDGE_HPU_SIM_TIMEOUT": "ignored", "NORTHBRIDGE_FLIGHT_RECORDER": str(flight)}
    job = start(str(tmp_path / "hanging.py"), "2", "20", **environ)
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
