"""The programs of ranks in test_calls.py: dtypes, groups, coalesced and asynchronous calls, and random numbers.

`python group_programs.py <function>`, under RANK and so on.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from tests.backends.cpu_sim.csrc.collective.rank_programs import HERE, RANK, SIZE, expect, full, group, refusal, started
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, rand

from northbridge_cpu_sim import Fault, planned_faults

# Untyped in torch.
sharded_random: Callable[..., DTensor] = rand

MOVED = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
)


def of_rank(rank: int, dtype: torch.dtype, *shape: int) -> Tensor:
    """Bytes that differ from rank to rank, as a tensor of `dtype`."""
    whole = torch.zeros(shape, dtype=dtype)
    raw = whole.view(torch.uint8) if dtype.itemsize == 1 else whole.view(-1).view(torch.uint8)
    if dtype == torch.bool:
        raw.copy_(torch.arange(raw.numel()).reshape(raw.shape) % 2)
    else:
        raw.fill_(rank + 1)
    return whole.to(HERE)


def same(one: Tensor, other: Tensor) -> None:
    assert one.dtype == other.dtype
    assert one.device == HERE
    assert one.cpu().flatten().view(torch.uint8).equal(other.cpu().flatten().view(torch.uint8)), (one, other)


def every_dtype_moves() -> None:
    with group():
        other = 1 - RANK
        for name in MOVED:
            dtype: torch.dtype = getattr(torch, name)
            mine = of_rank(RANK, dtype, 2, 3)
            theirs = of_rank(other, dtype, 2, 3)
            first, second = of_rank(0, dtype, 2, 3), of_rank(1, dtype, 2, 3)
            dist.broadcast(x := mine.clone(), src=1)
            same(x, second)
            dist.all_gather(xs := [torch.empty_like(mine) for _ in range(2)], mine)
            same(xs[other], theirs)
            dist.all_gather_into_tensor(x := torch.empty(4, 3, dtype=dtype, device=HERE), mine)
            same(x[:2], first)
            same(x[2:], second)
            xs = [torch.empty_like(mine) for _ in range(2)]
            dist.gather(mine, xs if RANK == 0 else None, dst=0)
            if RANK == 0:
                same(xs[1], second)
            dist.scatter(x := torch.empty_like(mine), [first, second] if RANK == 1 else None, src=1)
            same(x, mine)
            dist.all_to_all_single(x := torch.empty_like(mine), mine)
            same(x[other : other + 1], of_rank(other, dtype, 2, 3)[RANK : RANK + 1])
            dist.all_to_all(xs := [torch.empty_like(mine) for _ in range(2)], [first, second])
            same(xs[other], mine)
            work = dist.isend(mine, other)
            dist.recv(x := torch.empty_like(mine), other)
            assert work is not None
            work.wait()
            same(x, theirs)
            dist.broadcast(x := of_rank(RANK, dtype, 1)[0], src=0)
            same(x, of_rank(0, dtype, 1)[0])


def what_cannot_be_reduced() -> None:
    with group():
        for name in ("int16", "uint16", "float8_e5m2"):
            x = of_rank(RANK, getattr(torch, name), 3)
            print(refusal(functools.partial(dist.all_reduce, x)))
        print(refusal(lambda: dist.all_reduce(full(1.0), op=dist.ReduceOp.BAND)))
        print(refusal(lambda: dist.reduce_scatter_tensor(of_rank(0, torch.int16, 1), of_rank(0, torch.int16, 2))))
        x = torch.full((2,), 1 + 2j, device=HERE)
        dist.all_reduce(x)
        assert x.tolist() == [2 + 4j] * 2


def uneven() -> None:
    with group():
        sent = full(RANK, 3, 2)
        mine, theirs = ([1, 2], [1, 1]) if RANK == 0 else ([1, 2], [2, 2])
        dist.all_to_all_single(x := full(-1, sum(theirs), 2), sent, theirs, mine)
        expect(x, *[0.0] * 2 * theirs[0], *[1.0] * 2 * theirs[1])
        parts = [full(RANK, 1 + RANK), full(RANK, 4)]
        dist.all_to_all(xs := [full(-1, n) for n in ((1, 2) if RANK == 0 else (4, 4))], parts)
        expect(torch.cat(xs), *([0.0] * 1 + [1.0] * 2 if RANK == 0 else [0.0] * 4 + [1.0] * 4))


def split() -> None:
    torch.accelerator.set_device_index(RANK)
    dist.init_process_group("simccl", device_id=HERE)
    part = dist.split_group(split_ranks=[[0, 2], [1, 3]])
    assert part is not None
    assert dist.get_backend(part) == "simccl"
    assert dist.get_process_group_ranks(part) == [RANK % 2, RANK % 2 + 2]
    dist.all_reduce(x := full(RANK), group=part)
    expect(x, *[float(2 * (RANK % 2) + 2)] * 3)
    alone = dist.split_group(split_ranks=[[1, 2]])
    assert isinstance(alone, dist.ProcessGroup) == (RANK in (1, 2))  # torch 2.13 returns None to the others
    if isinstance(alone, dist.ProcessGroup):
        dist.all_reduce(x := full(RANK), group=alone)
        expect(x, 3, 3, 3)
    rest = dist.new_group([0, 1, 2])  # of which torch tells the other rank, as it does with NCCL
    if RANK < 3:
        dist.all_reduce(x := full(RANK), group=rest)
        expect(x, 3, 3, 3)
    dist.destroy_process_group()


def coalesced() -> None:
    with group():
        manager: Any = dist.distributed_c10d._coalescing_manager
        with manager(device=HERE):
            dist.broadcast(x := full(RANK), src=1)
            dist.all_gather(ys := [full(-1), full(-1)], full(RANK))
        expect(torch.cat([x, *ys]), 1, 1, 1, 0, 0, 0, 1, 1, 1)
        with manager(device=HERE, async_ops=True) as several:
            work = started(dist.broadcast, x := full(RANK), src=0)
            dist.barrier()
        several.wait()
        assert work.is_completed()
        expect(x, 0, 0, 0)
        with manager():
            dist.all_gather_into_tensor(x := full(-1, 2), full(RANK, 1))
            dist.all_gather_into_tensor(y := full(-1, 4), full(RANK, 2))
        expect(torch.cat([x, y]), 0, 1, 0, 0, 1, 1)
        with manager(async_ops=True) as several:
            dist.reduce_scatter_tensor(x := full(-1, 1), full(RANK, 2))
            dist.reduce_scatter_tensor(y := full(-1, 2), full(2 * RANK, 4))
        several.wait()
        expect(torch.cat([x, y]), 1, 2, 2)
        batch = [
            dist.P2POp(dist.irecv, x := full(-1), 1 - RANK),
            dist.P2POp(dist.isend, full(RANK), 1 - RANK),
            dist.P2POp(dist.irecv, y := full(-1), 1 - RANK, tag=2),
            dist.P2POp(dist.isend, full(10 + RANK), 1 - RANK, tag=2),
        ]
        (work,) = dist.batch_isend_irecv(batch)
        work.wait()
        expect(torch.cat([x, y]), *[1.0 - RANK] * 3, *[11.0 - RANK] * 3)


def asynchronous() -> None:
    with group():
        sent = dist.isend(full(RANK), 1 - RANK)
        received = dist.irecv(x := full(-1), 1 - RANK)
        assert sent is not None
        assert received is not None
        while not (sent.is_completed() and received.is_completed()):
            pass
        expect(x, *[1.0 - RANK] * 3)
        received = dist.irecv(x := full(-1), 1 - RANK)
        assert received is not None
        future = received.get_future().then(lambda done: done.value()[0] + 1)
        dist.send(full(RANK), 1 - RANK)
        expect(future.wait(), *[2.0 - RANK] * 3)
        if RANK == 0:
            late = dist.irecv(x := full(-1), 1)
            assert late is not None
            print(refusal(lambda: late.wait(timedelta(seconds=0.2))))
            dist.barrier()
            late.wait()
            expect(x, 7, 7, 7)
        else:
            dist.barrier()
            dist.send(full(7), 0)
        work = started(dist.all_reduce, full(1.0))
        work.wait()
        assert work.is_completed()
        assert work.is_success()


def unchecked() -> None:
    with group():
        tensor = full(1.0)
        works = [started(dist.all_reduce, tensor) for _ in range(20)]
        for work in works:
            work.wait()
        expect(tensor, *[2.0**20] * 3)
        work = started(dist.reduce_scatter_tensor, x := full(-1.0), full(RANK + 1.0, 6))
        while not work.is_completed():
            pass
        expect(x, 3, 3, 3)
        work = started(dist.reduce_scatter, x := full(-1.0), [full(RANK + 1.0), full(RANK + 2.0)])
        expect(work.get_future().wait()[0], *[3.0 + 2 * RANK] * 3)
        x.zero_()
        work.wait()
        expect(x, 0, 0, 0)
        another: Any = dist.new_group()
        if RANK == 0:
            work = started(dist.reduce_scatter_tensor, x, full(1.0, 6))
            assert "imed out" in refusal(lambda: work.wait(timedelta(seconds=0.2)))
            dist.barrier(group=another)
            work.wait()
        else:
            dist.barrier(group=another)
            dist.reduce_scatter_tensor(x, full(1.0, 6))
        expect(x, 2, 2, 2)


def what_cannot_be_carried() -> None:
    with group():
        rows = torch.arange(6.0, device=HERE).reshape(3, 2)
        print(refusal(lambda: dist.all_reduce(rows[:, 0])))
        print(refusal(lambda: dist.send(rows.t(), 1 - RANK)))
        print(refusal(lambda: dist.all_gather([full(0.0), torch.zeros(3)], full(1.0))))
        there = torch.zeros(3, device=torch.device("cpu_sim", 2 + RANK))
        print(refusal(lambda: dist.all_gather([full(0.0), there], full(1.0))))
        negative = torch.ops.aten._neg_view(x := full(1.0))
        everybody: Any = dist.group.WORLD
        print(refusal(lambda: everybody._get_backend(HERE).allreduce([negative])))
        expect(x, 1, 1, 1)
        dist.all_gather(xs := [full(0.0), full(0.0)], negative)
        expect(torch.cat(xs), *[-1.0] * 6)
        columns = torch.zeros(2, 3, device=HERE)
        dist.all_gather([columns.t(), x := torch.empty(3, 2, device=HERE)], rows)
        assert columns.t().equal(x)
        assert x.equal(rows)
        dist.reduce_scatter(x, [columns.t(), columns.t()])
        assert x.equal(2 * rows)


def coalesced_in_vain() -> None:
    with group():
        manager: Any = dist.distributed_c10d._coalescing_manager
        short = torch.zeros(1, dtype=torch.int16, device=HERE)

        def block() -> None:
            with manager(device=HERE):
                dist.all_gather([full(-1), full(-1)], full(RANK))
                dist.reduce(short, dst=0)

        assert "the sum of int16" in refusal(block)
        dist.broadcast(x := full(RANK), src=1)  # torch itself goes on collecting all_reduce
        expect(x, 1, 1, 1)
        with manager(device=HERE):
            assert "the sum of int16" in refusal(lambda: dist.reduce(short, dst=0))
            dist.broadcast(x := full(RANK), src=1)
        expect(x, 1, 1, 1)


def fault_in_a_future() -> None:
    with group():
        with planned_faults(Fault("corrupt", op="all_reduce", value=1e300)):
            work = started(dist.all_reduce, full(1, dtype=torch.int32))
            assert "overflow" in refusal(lambda: work.get_future().wait())
        dist.all_reduce(x := full(1.0))
        expect(x, 2, 2, 2)


def receives_that_nobody_meets() -> None:
    with group(timeout_s=1000):
        works = [dist.irecv(full(0.0), 1 - RANK, tag=tag) for tag in range(3)]
        assert works[0] is not None
        assert not works[0].is_completed()  # asks once, and a thread waits
        dist.barrier()
    assert works[1] is not None
    assert "the group was shut down" in refusal(works[1].wait)


def random_dtensors() -> None:
    """Each shard has numbers of its own, replicas have the same, and the generator goes on in step."""
    with group():
        mesh = init_device_mesh("cpu_sim", (SIZE,))
        torch.manual_seed(3)
        shards = sharded_random(SIZE * 4, 5, device_mesh=mesh, placements=[Shard(0)]).full_tensor().cpu()
        assert len(set(shards.flatten().tolist())) == SIZE * 20
        copies = sharded_random(6, device_mesh=mesh, placements=[Replicate()]).to_local()
        drawn = torch.rand(6, device=HERE)
        for same_everywhere in (copies, drawn):
            gathered = [torch.empty(6, device=HERE) for _ in range(SIZE)]
            dist.all_gather(gathered, same_everywhere)
            assert all(torch.equal(other, same_everywhere) for other in gathered)
        assert not torch.equal(copies, drawn)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
