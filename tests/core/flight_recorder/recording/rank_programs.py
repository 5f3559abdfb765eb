"""The programs of ranks in test_recorder.py: `python rank_programs.py <function>`, under RANK and so on, over Gloo."""

from __future__ import annotations

import errno
import os
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import _functional_collectives
from torch.nn.parallel import DistributedDataParallel

import northbridge
from northbridge.flight_recorder import arm
from northbridge.flight_recorder.records import Segments

c10d: Any = dist  # whose stubs hide what it offers
RANK = int(os.environ.get("RANK", "0"))


def every_kind() -> None:
    """Call one of each kind, from Python and from C++, and leave."""
    arm()
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(2, 3))
    dist.barrier()
    work: Any = dist.all_reduce(torch.ones(4, dtype=torch.int64), async_op=True)
    work.wait()
    dist.broadcast(torch.ones(5), src=1)
    if RANK == 0:
        dist.send(torch.ones(6), 1, tag=3)
    else:
        dist.recv(torch.ones(6), 0, tag=3)
    dist.all_reduce(torch.ones(1), group=dist.new_group([0, 1]))
    (_functional_collectives.all_reduce(torch.ones(7), "sum", c10d.group.WORLD) + 0).sum()
    model: Any = DistributedDataParallel(nn.Linear(3, 1))
    model(torch.ones(2, 3)).sum().backward()
    try:
        dist.all_reduce(torch.ones(8), op=dist.ReduceOp.BAND)
    except RuntimeError as error:
        print(f"refused: {type(error).__name__}: {error}")
    dist.destroy_process_group()
    os.environ["MASTER_PORT"] = os.environ["SECOND_PORT"]
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(9))
    dist.destroy_process_group()


def over_the_host() -> None:
    """Call over HostCollective, whose calls are those of a group within, in all ranks and in rank 1 alone."""
    arm()
    host = northbridge.HostCollective()
    host.device_type = "cpu"
    host.register()
    dist.init_process_group("host")
    dist.all_reduce(torch.ones(2, 3).t())
    last = dist.new_group([1])
    if RANK == 1:
        dist.all_reduce(torch.ones(4), group=last)


def one_skips() -> None:
    """Skip a call on rank 1, which sleeps meanwhile; the test kills both."""
    arm()
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(2))
    if RANK == 1:
        time.sleep(600)
    dist.all_reduce(torch.ones(3))


def many_calls() -> None:
    """Make more calls than are kept, alone."""
    arm()
    dist.init_process_group("gloo", store=c10d.HashStore(), rank=0, world_size=1)
    for _ in range(35):
        dist.all_reduce(torch.ones(2))
    dist.destroy_process_group()


def full_disk() -> None:
    """Run out of disk in the middle of training, and train on."""
    arm()
    dist.init_process_group("gloo", store=c10d.HashStore(), rank=0, world_size=1)
    dist.all_reduce(torch.ones(2))

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    segments: Any = Segments
    segments.write = refuse
    tensor = torch.ones(2)
    for _ in range(3):
        dist.all_reduce(tensor)
    print("trained", tensor.tolist())


def forked() -> None:
    """Record in a child that was forked after the parent had begun."""
    arm()
    dist.init_process_group("gloo", store=c10d.HashStore(), rank=0, world_size=1)
    dist.all_reduce(torch.ones(2))
    dist.destroy_process_group()
    child = os.fork()
    if child == 0:
        dist.init_process_group("gloo", store=c10d.HashStore(), rank=0, world_size=1)
        for _ in range(3):
            dist.all_reduce(torch.ones(2))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status


if __name__ == "__main__":
    globals()[sys.argv[1]]()
