"""The programs of ranks of which one is lost, calls something else or leaves out a call, and that meet faults.

`python failing_programs.py <function>`, under RANK and so on. Each rank prints what it was told.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from tests.backends.cpu_sim.csrc.collective.rank_programs import HERE, RANK, SIZE, expect, full, group, refusal, started
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from northbridge_cpu_sim import Fault, faults_met, planned_faults

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


def different() -> None:
    first, ops = RANK == 0, dist.ReduceOp
    with group():
        print(refusal(lambda: dist.all_reduce(full(1.0)) if first else dist.broadcast(full(1.0), 0)))
        print(refusal(lambda: dist.all_reduce(full(1.0, 3 if first else 4))))
        print(refusal(lambda: dist.all_reduce(full(1.0, dtype=torch.float32 if first else torch.int32))))
        print(refusal(lambda: dist.all_reduce(full(1.0), op=ops.SUM if first else ops.MAX)))
        print(refusal(lambda: dist.broadcast(full(1.0), RANK)))
        print(refusal(lambda: dist.all_to_all_single(full(1.0, 3), full(1.0, 3), [1, 2], [1, 2] if first else [2, 1])))
        print(refusal(started(dist.all_reduce, full(1.0, 3 if first else 4)).wait))
        dist.all_reduce(x := full(1.0))  # the group goes on
        expect(x, 2, 2, 2)


def one_of_four() -> None:
    with group():
        dist.barrier()
        print(refusal(dist.barrier if RANK == 2 else lambda: dist.all_reduce(full(1.0))))


def correct() -> None:
    """Order between ranks that is right, and in which a check that waits at the call would never end."""
    with group():
        pair = dist.new_group([0, 1])
        if RANK == 0:
            first = started(dist.all_reduce, x := full(1.0))
            second = started(dist.all_reduce, y := full(2.0), group=pair)
            dist.send(full(3.0), 1)
            first.wait()
            second.wait()
        else:
            second = started(dist.all_reduce, y := full(2.0), group=pair)
            dist.recv(torch.empty(3, device=HERE), 0)
            dist.all_reduce(x := full(1.0))
            second.wait()
        expect(x, 2, 2, 2)
        expect(y, 4, 4, 4)
        works = [started(dist.all_reduce, full(1.0)) for _ in range(200)]
        for work in reversed(works):
            work.wait()


def one_leaves_out_a_backward() -> None:
    """Train with DDP; the last rank leaves out the second backward, and stays until the others have given up."""
    failed = [Path(f"{os.environ['NORTHBRIDGE_FLIGHT_RECORDER']}.{rank}") for rank in range(SIZE)]
    torch.accelerator.set_device_index(RANK)
    dist.init_process_group("simccl", timeout=timedelta(seconds=100))
    model: Any = DistributedDataParallel(nn.Linear(3, 1).to(HERE))
    model(torch.ones(2, 3, device=HERE)).sum().backward()
    everybody: Any = dist.group.WORLD  # who have met
    everybody.set_timeout(timedelta(seconds=4))
    loss = model(torch.ones(2, 3, device=HERE)).sum()
    if RANK == SIZE - 1:
        while not all(path.exists() for path in failed[:-1]):
            time.sleep(0.05)
    else:
        try:
            loss.backward()
            torch.accelerator.synchronize()
        except RuntimeError:
            failed[RANK].touch()


def train() -> None:
    """Train for 5 steps, and say how many were taken."""
    with group():
        net = DistributedDataParallel(nn.Linear(3, 1).to(HERE))
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for step in range(5):
            optimizer.zero_grad()
            torch.autograd.backward(net(torch.ones(2, 3, device=HERE)).sum())
            optimizer.step()
            print("steps", step + 1, flush=True)


def meet_collectives() -> None:
    with group():
        for _ in range(3):
            dist.all_reduce(x := full(1.0, 2))
            print("reduced", x.tolist())
        work = started(dist.all_reduce, full(1.0, 2))
        print("future", [tensor.tolist() for tensor in work.get_future().wait()])
        dist.all_reduce(x := full(1.0, 2), group=dist.new_group())
        print("another group", x.tolist())
        with planned_faults(Fault("raise", op="all_gather_into_tensor"), Fault("oom", op="broadcast")):
            print(refusal(lambda: dist.all_gather_into_tensor(full(0.0, 4), x)))
            print(refusal(lambda: dist.broadcast(x, src=0)))
        dist.barrier()
        print("met", [(str(met.fault), met.rank, met.op, met.seq) for met in faults_met()])


if __name__ == "__main__":
    globals()[sys.argv[1]]()
