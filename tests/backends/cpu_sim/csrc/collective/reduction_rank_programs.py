"""The programs of ranks in test_reductions.py.

`python reduction_rank_programs.py <function>`, under RANK and so on; a rank that finds something wrong ends with an
error, and what it prints is for the test to read.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from tests.backends.cpu_sim.csrc.collective.rank_programs import HERE, RANK, expect, full, group, refusal, started
from torch._C._distributed_c10d import _make_nccl_premul_sum

AVG = dist.ReduceOp.AVG
MINE = RANK + 1.0


def averages() -> None:
    """Every reducing call takes the average, which is the sum divided by the ranks."""
    with group():
        dist.all_reduce(x := full(MINE), op=AVG)
        expect(x, 1.5, 1.5, 1.5)
        dist.reduce(x := full(MINE), dst=1, op=AVG)
        assert RANK != 1 or x.tolist() == [1.5] * 3  # the other's is undefined
        dist.reduce_scatter(x := full(0.0), [full(MINE), full(10 * MINE)], op=AVG)
        expect(x, *[1.5 * (1, 10)[RANK]] * 3)
        source = full(MINE, 6)
        dist.reduce_scatter_tensor(x := full(0.0), source, op=AVG)
        expect(x, 1.5, 1.5, 1.5)
        expect(source, *[MINE] * 6)
        with dist.distributed_c10d._coalescing_manager(async_ops=True) as several:
            dist.all_reduce(x := full(MINE), op=AVG)
            dist.all_reduce(y := full(10 * MINE), op=AVG)
        several.wait()
        expect(torch.cat([x, y]), *[1.5] * 3, *[15.0] * 3)
        wait: Any = functional.wait_tensor  # untyped
        expect(wait(functional.all_reduce(full(MINE), "avg", [0, 1])), 1.5, 1.5, 1.5)


def averages_in_the_background() -> None:
    """An average is there once its work is done, however one learns that."""
    with group():
        work = started(dist.all_reduce, x := full(MINE), op=AVG)
        work.wait()
        expect(x, 1.5, 1.5, 1.5)
        work = started(dist.all_reduce, x := full(MINE), op=AVG)
        doubled = work.get_future().then(lambda future: future.value()[0] * 2)
        expect(doubled.wait(), 3, 3, 3)
        expect(x, 1.5, 1.5, 1.5)
        work = started(dist.all_reduce, x := full(MINE), op=AVG)
        while not work.is_completed():
            pass
        expect(x, 1.5, 1.5, 1.5)
        started(dist.all_reduce, full(MINE), op=AVG)  # nobody waits for it
        dist.barrier()


def averages_of_each_dtype() -> None:
    with group():
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            dist.all_reduce(x := full(MINE, dtype=dtype), op=AVG)
            expect(x, 1.5, 1.5, 1.5)
        for dtype in (torch.int8, torch.int32, torch.int64):
            dist.all_reduce(x := torch.tensor([3, -3], device=HERE, dtype=dtype).add_(RANK), op=AVG)
            expect(x, 3, -2)  # 7 / 2 and -5 / 2, cut towards zero
        dist.all_reduce(x := full(2**24 + RANK + 1, dtype=torch.int64), op=AVG)
        expect(x, *[2**24 + 1] * 3)


def sums_with_factors() -> None:
    """Each rank's tensor is multiplied by its own factor before the sum, and what is only read stays as it is."""
    with group():
        twice: Any = _make_nccl_premul_sum(2.0)
        dist.all_reduce(x := full(MINE), op=twice)
        expect(x, 6, 6, 6)
        own: Any = _make_nccl_premul_sum(torch.tensor(MINE, device=HERE))
        dist.all_reduce(x := full(MINE), op=own)
        expect(x, 5, 5, 5)
        source = full(MINE, 6)
        dist.reduce_scatter_tensor(x := full(0.0), source, op=twice)
        expect(x, 6, 6, 6)
        expect(source, *[MINE] * 6)


def refusals() -> None:
    with group():
        factor: Any = _make_nccl_premul_sum(2.0)
        print(refusal(lambda: dist.all_reduce(full(1.0, dtype=torch.bool), op=AVG)))
        print(refusal(lambda: dist.all_reduce(full(1.0, dtype=torch.int64), op=factor)))
        print(refusal(lambda: dist.reduce_scatter_tensor(full(1.0), full(1.0, 6), op=dist.ReduceOp.BAND)))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
