"""The programs of ranks in test_calls.py: `python rank_programs.py <function>`, under RANK and so on.

A rank that finds something wrong ends with an error; what it prints is for the test to read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import northbridge

northbridge.load("cpu_sim")

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
HERE = torch.device("cpu_sim", RANK)


@contextmanager
def group(backend: str = "simccl", timeout_s: float = 60.0) -> Iterator[None]:
    torch.accelerator.set_device_index(RANK)
    dist.init_process_group(backend, timeout=timedelta(seconds=timeout_s))
    yield
    dist.destroy_process_group()


def full(value: float, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
    return torch.full(shape or (3,), value, device=HERE, dtype=dtype)


def started(collective: Callable[..., Any], *arguments: object, **options: object) -> Any:
    """The work of a collective that goes on in the background."""
    return collective(*arguments, async_op=True, **options)


def expect(tensor: Tensor, *values: float) -> None:
    assert tensor.device == HERE, tensor.device
    assert tensor.flatten().tolist() == list(values), (tensor, values)


def refusal(call: Callable[[], object]) -> str:
    try:
        call()
    except (RuntimeError, ValueError) as error:
        return f"refused: {type(error).__name__}: {error}"
    raise AssertionError("nothing was refused")


def every_collective() -> None:
    with group():
        assert dist.get_backend() == "simccl"
        mine, total = RANK + 1.0, 3.0

        dist.broadcast(x := full(mine), src=1)
        expect(x, 2, 2, 2)
        for op, value in (("SUM", total), ("PRODUCT", 2.0), ("MIN", 1.0), ("MAX", 2.0)):
            dist.all_reduce(x := full(mine), op=getattr(dist.ReduceOp, op))
            expect(x, value, value, value)
        dist.all_reduce(x := full(2**24 + RANK, dtype=torch.int64))
        expect(x, *[2**25 + 1] * 3)
        dist.reduce(x := full(mine), dst=0)
        assert RANK != 0 or x.tolist() == [total] * 3  # the others' is undefined

        dist.all_gather(xs := [full(0.0) for _ in range(2)], full(mine))
        expect(torch.cat(xs), 1, 1, 1, 2, 2, 2)
        dist.all_gather_into_tensor(x := full(0.0, 6), full(mine))
        expect(x, 1, 1, 1, 2, 2, 2)
        xs = [full(0.0) for _ in range(2)] if RANK == 0 else []
        dist.gather(full(mine), xs or None, dst=0)
        assert not xs or torch.cat(xs).tolist() == [1, 1, 1, 2, 2, 2]
        dist.scatter(x := full(0.0), [full(5.0), full(6.0)] if RANK == 1 else None, src=1)
        expect(x, *[5.0 + RANK] * 3)

        dist.reduce_scatter(x := full(0.0), [full(mine), full(10 * mine)])
        expect(x, *[total * (1, 10)[RANK]] * 3)
        dist.reduce_scatter_tensor(x := full(0.0), full(mine, 6))
        expect(x, total, total, total)
        dist.all_to_all_single(x := full(0.0, 2), torch.arange(2.0, device=HERE) + 10 * RANK)
        expect(x, RANK, 10 + RANK)
        dist.all_to_all(xs := [full(0.0, 1), full(0.0, 1)], [full(mine, 1), full(-mine, 1)])
        expect(torch.cat(xs), *((1, 2) if RANK == 0 else (-1, -2)))

        if RANK == 0:
            dist.send(full(7.0), dst=1)
            dist.send(full(8.0), dst=1, tag=4)
        else:
            dist.recv(x := full(0.0), src=0)
            expect(x, 7, 7, 7)
            sender = dist.recv(x := full(0.0), tag=4)
            assert sender == 0
            expect(x, 8, 8, 8)
        operations = [dist.P2POp(dist.isend, full(mine), 1 - RANK), dist.P2POp(dist.irecv, x := full(0.0), 1 - RANK)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        expect(x, *[3.0 - mine] * 3)

        with dist.distributed_c10d._coalescing_manager(async_ops=True) as several:
            dist.all_reduce(x := full(mine))
            dist.all_reduce(y := full(10 * mine))
        several.wait()
        expect(torch.cat([x, y]), *[3.0] * 3, *[30.0] * 3)
        dist.barrier()


def objects_and_gradients() -> None:
    with group():
        gathered: list[object] = [None, None]
        dist.all_gather_object(gathered, {"rank": RANK})
        assert gathered == [{"rank": 0}, {"rank": 1}]
        told: list[object] = [f"from {RANK}", torch.ones(2, device=HERE)]
        dist.broadcast_object_list(told, src=1)
        assert told[0] == "from 1"

        import torch.distributed.nn.functional as differentiable

        x = full(RANK + 1.0).requires_grad_()
        gather: Any = differentiable.all_gather  # untyped
        parts = gather(x)
        torch.autograd.backward((parts[0] * parts[1]).sum())
        assert x.grad is not None
        expect(x.grad, *[2.0 * (2.0 - RANK)] * 3)

        import torch.distributed._functional_collectives as functional

        wait: Any = functional.wait_tensor  # untyped
        expect(wait(functional.all_reduce(full(1.0), "sum", [0, 1])), 2, 2, 2)


def check_sum(work: Any, expected: float) -> None:
    work.wait()
    (result,) = work.get_future().value()
    assert result.device == HERE
    assert result.unique().tolist() == [expected]


def temporaries() -> None:
    with group():
        works = [started(dist.all_reduce, full(float(index), 5000)) for index in range(200)]
        held = torch.accelerator.memory_allocated(RANK)
        while works:
            check_sum(works.pop(), 2.0 * len(works))
        for index in range(200):
            started(dist.all_reduce, full(float(index), 5000))  # not even the work is kept
        dist.barrier()
    # The group's threads have ended with it, and dropped what they held.
    print("held", held >= 200 * 5000 * 4, "left", torch.accelerator.memory_allocated(RANK))


def work_results() -> None:
    with group():
        work = started(dist.all_reduce, x := full(1.0))
        doubled = work.get_future().then(lambda future: future.value()[0] * 2)
        expect(doubled.wait(), 4, 4, 4)
        assert work.wait()
        assert work.is_completed()
        (reduced,) = work.get_future().value()
        assert reduced.data_ptr() == x.data_ptr()
        expect(reduced, 2, 2, 2)
        (again,) = work.result()
        expect(again, 2, 2, 2)
        work = started(dist.all_gather, [full(0.0), full(0.0)], full(1.0))
        work.wait()
        assert [tensor.device for tensor in work.get_future().value()] == [HERE, HERE]


def refusals() -> None:
    with group():
        dist.barrier()  # a rank that ends while the other still connects would break its connection
        print(refusal(lambda: dist.all_reduce(torch.ones(3))))
        print(refusal(lambda: dist.new_group(backend="simccl", pg_options=object())))


def beside_gloo() -> None:
    with group("cpu:gloo,cpu_sim:simccl"):
        dist.all_reduce(x := full(1.0))
        dist.all_reduce(y := torch.ones(3))
        assert x.tolist() == y.tolist() == [2.0] * 3
        dist.all_reduce(y, group=dist.new_group(backend="gloo"))
        assert y.tolist() == [4.0] * 3
        gloo: Any = dist.new_group(backend="gloo")
        dist.monitored_barrier(gloo)
        dist.all_reduce(x, group=dist.new_group(backend="simccl"))
        expect(x, 4, 4, 4)
    torch.accelerator.set_device_index(RANK)
    os.environ["MASTER_PORT"] = os.environ["SECOND_PORT"]
    dist.init_process_group("simccl", device_id=HERE)
    dist.all_reduce(x := full(1.0))
    expect(x, 2, 2, 2)
    dist.destroy_process_group()


def missing_rank() -> None:
    torch.accelerator.set_device_index(RANK)
    dist.init_process_group("simccl", timeout=timedelta(seconds=60))
    dist.all_reduce(full(1.0))
    store = dist.distributed_c10d._get_default_store()
    short: Any = dist.new_group(timeout=timedelta(seconds=60))
    dist.all_reduce(full(1.0), group=short)
    short.set_timeout(timedelta(seconds=2))  # all have met
    if RANK == 0:
        print(refusal(lambda: dist.all_reduce(full(1.0), group=short)))
        print(refusal(started(dist.all_reduce, full(1.0), group=short).wait))
        future = started(dist.all_reduce, full(1.0), group=short).get_future()
        print(refusal(future.wait), flush=True)
        store.set("rank 0 is over", "")
        store.wait(["rank 1 is over"])
    else:
        store.wait(["rank 0 is over"])
        store.set("rank 1 is over", "")
    os._exit(0)


def destroyed_group() -> None:
    with group():
        library: Any = dist.group.WORLD._get_backend(HERE)  # type: ignore[union-attr]  # there is a group
        dist.all_reduce(full(1))
    print(refusal(lambda: library.allreduce([full(1)])))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
