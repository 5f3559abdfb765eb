"""The programs of single ranks in test_ranks.py: `python fault_rank_programs.py <function>`, under RANK and so on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import northbridge
from northbridge_cpu_sim import Fault, faults_met, planned_faults

northbridge.load("cpu_sim")

RANK = int(os.environ["RANK"])
HERE = torch.device("cpu_sim", RANK)
torch.accelerator.set_device_index(RANK)
dist.init_process_group("simccl")


def train() -> None:
    """Train for 5 steps, and say how many were taken."""
    net = DistributedDataParallel(nn.Linear(3, 1).to(HERE))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for step in range(5):
        optimizer.zero_grad()
        torch.autograd.backward(net(torch.ones(2, 3, device=HERE)).sum())
        optimizer.step()
        print("steps", step + 1, flush=True)


def meet_collectives() -> None:
    for _ in range(3):
        dist.all_reduce(x := torch.ones(2, device=HERE))
        print("reduced", x.tolist())
    work = dist.all_reduce(x := torch.ones(2, device=HERE), async_op=True)
    assert work is not None
    print("future", [tensor.tolist() for tensor in work.get_future().wait()])
    other = dist.new_group()
    dist.all_reduce(x := torch.ones(2, device=HERE), group=other)
    print("another group", x.tolist())
    with planned_faults(Fault("raise", op="all_gather_into_tensor"), Fault("oom", op="broadcast")):
        calls: list[Callable[[], object]] = [
            lambda: dist.all_gather_into_tensor(torch.empty(4, device=HERE), x),
            lambda: dist.broadcast(x, src=0),
        ]
        for call in calls:
            try:
                call()
            except RuntimeError as error:
                print(type(error).__name__, error)
    dist.barrier()
    print("met", [(str(met.fault), met.rank, met.op, met.seq) for met in faults_met()])


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    dist.destroy_process_group()
