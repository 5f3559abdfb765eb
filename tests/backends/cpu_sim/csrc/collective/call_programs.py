"""The programs of ranks in test_calls.py about reductions, futures and parts, and about a library that lacks calls.

`python call_programs.py <function>`, under RANK and so on; a rank that finds something wrong ends with an error, and
what it prints is for the test to read.
"""

from __future__ import annotations

import functools
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
        work = started(dist.all_reduce, full(MINE), op=AVG)
        expect(work.get_future().then(lambda future: future.value()[0] * 2).wait(), 3, 3, 3)
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


# --- The library of a made-up chip, which lacks and converts things


INTEGER, HALF_INTEGER = torch.int32, torch.int16


def here(*values: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype, device=HERE)


def lacking() -> None:
    short, number = here(1, dtype=HALF_INTEGER), here(1, dtype=INTEGER)
    with group():
        print(refusal(lambda: dist.all_reduce(here(1), op=dist.ReduceOp.PRODUCT)))
        print(refusal(lambda: dist.reduce(here(1), 0, op=AVG)))
        print(refusal(lambda: dist.broadcast(short, 0)))
        print(refusal(lambda: dist.all_gather([short, short], short)))
        print(refusal(lambda: dist.recv(here(1))))
        print(refusal(lambda: dist.reduce_scatter(number, [number, number])))


def converted() -> None:
    with group():
        dist.all_reduce(x := here(2**24 + RANK, dtype=INTEGER))
        assert x.tolist() == [2**25], x  # and not 2 ** 25 + 1
        dist.all_reduce(x := here(2**24 + 1 - RANK, dtype=INTEGER), op=dist.ReduceOp.MAX)
        assert x.tolist() == [2**24], x
        dist.all_reduce(x := here(300, RANK, dtype=HALF_INTEGER))
        assert x.tolist() == [600, 1], x
        dist.all_reduce(x := torch.tensor([True, RANK == 1, False], device=HERE))
        assert x.tolist() == [True, True, False], x
        dist.all_reduce(x := here(0.1 * (RANK + 1), dtype=torch.float64))
        assert torch.equal(x.cpu(), x.cpu().float().double()), x
        dist.all_reduce(x := here(1.5, dtype=torch.bfloat16))
        assert x.tolist() == [3.0], x
        dist.reduce(x := here(2**24 + RANK, dtype=INTEGER), 1)
        assert x.tolist() == [2**25 if RANK == 1 else 2**24], x
        dist.reduce_scatter_tensor(x := here(0, dtype=INTEGER), here(2**24 + RANK, 2**24 + 1, dtype=INTEGER))
        assert x.tolist() == [2**25], x
        dist.reduce_scatter(x := here(0, dtype=torch.uint8), [here(RANK + 1, dtype=torch.uint8)] * 2)
        assert x.tolist() == [3], x
        dist.broadcast(x := here(2**24 + 1 + RANK, dtype=INTEGER), 0)
        assert x.tolist() == [2**24 + 1], x  # what is not reduced is not rounded


def waited_for() -> None:
    """A conversion makes the call wait for its end."""
    with group():
        work = started(dist.all_reduce, x := here(1 + RANK, dtype=INTEGER))
        assert work.is_completed()
        expect(x, 3)
        assert work.get_future().value()[0].data_ptr() == x.data_ptr()
        started(dist.all_reduce, x := here(1 + RANK)).wait()
        expect(x, 3)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
