"""The start of a rank's process group, and the end of a rank whose library waits for the others for ever."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from tests.scripts import run_forked

import northbridge
from northbridge.launch.process_group import meet, start
from northbridge_conformance.runs.processes import reserve_port

CPU = torch.device("cpu")


class ACCL(northbridge.Collective):
    name = "accl"


@pytest.mark.filterwarnings("ignore:Device capability of accl unknown:UserWarning")  # torch's guess, before it fails
def test_the_asked_library_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not registered is told with those found."""
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(reserve_port()))
    with pytest.raises(northbridge.CollectiveError, match=r"torch has no backend 'accl'; found .*gloo"):
        start(ACCL(), rank=0, world_size=1, timeout=None, device=CPU)
    assert not dist.is_initialized()

    start(ACCL(), rank=0, world_size=1, timeout=None, device=CPU, library="gloo")
    try:
        assert dist.get_backend() == "gloo"
    finally:
        dist.destroy_process_group()


def test_torchcomms_is_refused_by_its_variable() -> None:
    config = pytest.importorskip("torch.distributed.config", reason="torchcomms came with torch 2.13")
    with config.patch(use_torchcomms=True), pytest.raises(northbridge.VariableError) as caught:
        meet(ACCL(), rank=0, world_size=1, timeout=None, device=CPU)

    assert caught.value.variable == "TORCH_DISTRIBUTED_USE_TORCHCOMMS"
    assert str(caught.value) == "TORCH_DISTRIBUTED_USE_TORCHCOMMS is set, but torchcomms has no 'accl'. Fix: unset it"


WAITING = """
import ctypes, sys
from datetime import timedelta
import torch.distributed as dist
from northbridge.launch import process_group

how = sys.argv[1]
process_group.GRACE_SECONDS = 0.0 if how == "caught, and no time is left" else 1.0
dist.is_initialized = lambda: True
dist.get_world_size = lambda: 2
# With the interpreter's lock in its hands, as a library in C may.
dist.destroy_process_group = lambda: print("waits", flush=True) or ctypes.PyDLL(None).sleep(1000)
process_group.leave_at_the_end(timedelta(seconds=2 if how == "well" else 1000), None)
if how == "raises":
    raise RuntimeError("a rank hangs")
if how.startswith("caught"):
    process_group.note_failure()
"""


@pytest.mark.parametrize("how", ["raises", "caught", "well", "caught, and no time is left"])
def test_a_process_ends_though_its_library_waits_for_ever(tmp_path: Path, how: str) -> None:
    """Soon after an error, one that the script catches too; else within the group's timeout."""
    script = tmp_path / "train.py"
    script.write_text(WAITING)
    began = time.monotonic()

    ran = run_forked(script, how, folder=tmp_path)

    assert "waits" in ran.said or "no time" in how
    assert ("RuntimeError: a rank hangs" in ran.said) == (how == "raises")
    assert ran.status == 1
    assert time.monotonic() - began < 60


USERS_TIMER = """
import atexit, faulthandler, os, time
from datetime import timedelta
import torch.distributed as dist
from northbridge.launch import process_group

def wait():  # after our own function at the end
    until = time.monotonic() + 60
    while not os.path.getsize("stacks.txt") and time.monotonic() < until:
        time.sleep(0.02)

atexit.register(wait)
dist.is_initialized = lambda: True
dist.get_world_size = lambda: 2
dist.destroy_process_group = lambda: None
process_group.leave_at_the_end(timedelta(seconds=1000), None)
faulthandler.dump_traceback_later(0.5, file=open("stacks.txt", "w"))
"""


def test_timer_of_the_user_goes_off(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(USERS_TIMER)

    ran = run_forked(script, folder=tmp_path)

    assert ran.status == 0, ran.said
    assert "in wait" in (tmp_path / "stacks.txt").read_text()


STOPPED = """
import os, signal, sys, time
from datetime import timedelta
from importlib import import_module

def work(fabric):
    value = fabric.all_reduce(__import__("torch").ones(1, device=fabric.device), reduce_op="sum")
    if fabric.global_rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    fabric.barrier()

if __name__ == "__main__":
    from lightning.fabric import Fabric
    from lightning.fabric.strategies import DDPStrategy
    strategy = DDPStrategy(timeout=timedelta(seconds=15), start_method="fork")
    began = time.monotonic()
    try:
        Fabric(accelerator="cpu_sim", devices=2, strategy=strategy).launch(work)
    except Exception as error:
        print("after", time.monotonic() - began, str(error).splitlines()[-1], flush=True)
"""


def test_a_stopped_rank_of_a_forked_run_ends_within_the_timeout(tmp_path: Path) -> None:
    """torch tells it to end, which reaches no stopped process, and kills it half a minute later."""
    script = tmp_path / "train.py"
    script.write_text(STOPPED)

    ran = run_forked(script, folder=tmp_path)

    (line,) = [line for line in ran.said.splitlines() if line.startswith("after ")]
    assert float(line.split()[1]) < 15 + 30, ran.said
    assert "rank 1" in ran.said
