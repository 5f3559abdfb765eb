"""The programs of ranks in test_missing_ranks.py: one of four ranks does not do its part.

`python missing_programs.py <function>`, under RANK and so on. Survivors print what they were told.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from tests.backends.cpu_sim.csrc.collective.rank_programs import RANK, full, refusal, started

TIMEOUT_S = float(os.environ.get("TIMEOUT_S", "5"))
LOST = int(os.environ.get("LOST", "2"))


def begin() -> None:
    """Let all meet, however busy the machine is: the timeout holds from then on."""
    torch.accelerator.set_device_index(RANK)
    dist.init_process_group("simccl", timeout=timedelta(seconds=100))
    dist.all_reduce(full(1.0))
    everybody: Any = dist.group.WORLD
    everybody.set_timeout(timedelta(seconds=TIMEOUT_S))


def told(call: Callable[[], object]) -> None:
    before = time.monotonic()
    print(refusal(call), flush=True)
    print(f"after {time.monotonic() - before:.1f} s", flush=True)
    dist.destroy_process_group()


def stopped() -> None:
    begin()
    if RANK == LOST:
        os.kill(os.getpid(), signal.SIGSTOP)
    told(lambda: dist.all_reduce(full(2.0)))


def killed() -> None:
    begin()
    if RANK == LOST:
        os.kill(os.getpid(), signal.SIGKILL)
    told(lambda: dist.all_reduce(full(2.0)))


def killed_in_a_subgroup() -> None:
    begin()
    pair: Any = dist.new_group([1, 3])
    store: Any = dist.distributed_c10d._get_default_store()  # in rank 0, where the pair meets
    if RANK == 0:
        store.wait(["told"])
    if RANK in (1, LOST):
        dist.all_reduce(full(1.0), group=pair)
    if RANK == LOST:
        store.wait(["reduced"])  # this rank may be through with the call before rank 1 is
        os.kill(os.getpid(), signal.SIGKILL)
    if RANK == 1:
        store.set("reduced", "")
        told(lambda: dist.all_reduce(full(2.0), group=pair))
        store.set("told", "")


def killed_in_the_call() -> None:
    begin()
    if RANK == LOST:
        work = started(dist.all_reduce, full(2.0))
        os.kill(os.getpid(), signal.SIGKILL)
        work.wait()
    told(lambda: dist.all_reduce(full(2.0)))


def skips() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCONT])
    begin()
    if RANK == LOST:
        alone: Any = dist.new_group([LOST])
        dist.barrier(group=alone)
        signal.sigwait([signal.SIGCONT])  # which it is sent when the others have given up
        return
    dist.new_group([LOST])
    told(lambda: dist.all_reduce(full(2.0)))


def receives_in_vain() -> None:
    begin()
    if RANK == 0:
        told(lambda: dist.recv(full(0.0), LOST))
    elif RANK == LOST:
        os.kill(os.getpid(), signal.SIGSTOP)


def pipeline() -> None:
    begin()
    if RANK == LOST:
        dist.recv(full(0.0, 2), 3)
        os.kill(os.getpid(), signal.SIGKILL)
    elif RANK == 3:
        dist.send(full(0.0, 2), LOST)
    else:
        told(lambda: dist.recv(full(0.0), RANK + 1))


def never_started() -> None:
    torch.accelerator.set_device_index(RANK)
    print(refusal(lambda: dist.init_process_group("simccl", timeout=timedelta(seconds=TIMEOUT_S))))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
