"""What single ranks do in test_collective_parts.py and test_collective_futures.py.

`python parts_programs.py <function>`, under RANK and so on: parts of every shape, and what follows on a future.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch
import torch.distributed as dist
from tests.backends.cpu_sim.rank_programs import HERE, RANK, expect, full, group, refusal, started
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel


def stacked() -> None:
    with group():
        for dtype in (torch.float32, torch.int16):  # the library below knows no int16, and moves bytes
            dist.all_gather_into_tensor(x := full(-1, 2, 2, 3, dtype=dtype), full(RANK, 2, 3, dtype=dtype))
            expect(x, *[0.0] * 6, *[1.0] * 6)
        dist.reduce_scatter_tensor(x := full(-1.0, 2, 3), full(RANK + 1.0, 2, 2, 3))
        expect(x, *[3.0] * 6)
        manager: Any = dist.distributed_c10d._coalescing_manager
        with manager():
            dist.all_gather_into_tensor(x := full(-1, 2, 1, 2), full(RANK, 1, 2))
            dist.all_gather_into_tensor(y := full(-1, 2), full(RANK, 1)[0])  # of no dimension
        expect(torch.cat([x.flatten(), y]), 0, 0, 1, 1, 0, 1)


def of_own_sizes() -> None:
    with group():
        for dtype in (torch.float32, torch.int16):
            parts = [full(-1, 1, 3, dtype=dtype), full(-1, 2, 3, dtype=dtype)]
            started(dist.all_gather, parts, full(RANK + 5.0, RANK + 1, 3, dtype=dtype)).wait()
            expect(torch.cat(parts), *[5.0] * 3, *[6.0] * 6)
        parts = [full(-1, 0), full(-1, 2)]
        dist.all_gather(parts, full(RANK, 2 * RANK))
        expect(torch.cat(parts), 1, 1)
        dist.reduce_scatter(x := full(0.0, RANK + 1), [full(RANK + 1.0, 1), full(RANK + 10.0, 2)])
        expect(x, *((3,) if RANK == 0 else (21, 21)))
        print(refusal(lambda: dist.all_gather([full(0, 1), full(0, 2)], full(RANK, 5))))


def to_oneself() -> None:
    with group():
        batch = [dist.P2POp(dist.irecv, full(-1), RANK), dist.P2POp(dist.isend, full(RANK), RANK)]
        print(refusal(functools.partial(dist.batch_isend_irecv, batch)))
        dist.broadcast(x := full(RANK), src=1)  # torch itself goes on collecting all_reduce
        expect(x, 1, 1, 1)


def values_after_a_wait() -> None:
    """Whoever has waited for a work, or heard that it is done, finds the value in its future."""
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
