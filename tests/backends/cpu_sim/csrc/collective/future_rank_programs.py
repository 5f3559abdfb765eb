"""The programs of ranks in test_futures.py: `python future_rank_programs.py <function>`, under RANK and so on."""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.distributed as dist
from tests.backends.cpu_sim.csrc.collective.rank_programs import HERE, RANK, expect, full, group, started
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel


def values_after_a_wait() -> None:
    """After a wait for a work, or its callback, its future has the value."""
    with group():
        for n in range(1, 100):
            work = started(dist.all_reduce, full(n))
            future = work.get_future()
            if n % 2:
                work.wait()
            else:
                while not work.is_completed():
                    pass
            expect(future.value()[0], *[2.0 * n] * 3)


def calls_that_follow() -> None:
    with group():

        def again(done: Any) -> Any:
            (tensor,) = done.value()
            return started(dist.all_reduce, tensor).get_future().wait()[0]

        for n in range(1, 5):
            future = started(dist.all_reduce, full(n, n)).get_future().then(again).then(lambda done: done.value() + 1)
            expect(future.wait(), *[4.0 * n + 1] * n)


def compressed_gradients() -> None:
    with group():
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(16, 32), nn.Linear(32, 8)).to(HERE)
        model = DistributedDataParallel(layers)  # one bucket: the calls of several cross each other, as with Gloo
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        for _ in range(5):
            torch.autograd.backward(model(full(RANK + 1.0, 4, 16)).mean())
        for parameter in model.parameters():
            assert parameter.grad is not None
            assert parameter.grad.isfinite().all()
            dist.all_gather(grads := [torch.empty_like(parameter) for _ in range(2)], parameter.grad)
            assert grads[0].equal(grads[1])


if __name__ == "__main__":
    globals()[sys.argv[1]]()
