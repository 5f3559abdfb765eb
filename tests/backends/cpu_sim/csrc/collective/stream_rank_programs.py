"""The programs of ranks in test_calls.py: each waits too little on deferred streams, then enough.

`python stream_rank_programs.py <function>`, under RANK and so on; a rank that finds something wrong ends with an error.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from tests.backends.cpu_sim.csrc.collective.rank_programs import HERE, RANK, SIZE, expect, full, group, refusal
from torch import Tensor

from northbridge_cpu_sim import Fault, planned_faults

TOTAL = SIZE * (SIZE + 1) / 2


def empty(*shape: int) -> Tensor:
    return torch.empty(*shape, device=HERE)


def each_collective() -> None:
    """The result of every collective holds NaN until its work is waited for."""
    mine = full(RANK + 1.0)
    calls: list[tuple[str, Callable[[], tuple[Any, list[Tensor]]], list[float]]] = [
        ("all_reduce", lambda: in_place(dist.all_reduce), [TOTAL] * 3),
        ("broadcast", lambda: in_place(dist.broadcast, src=0), [1.0] * 3),
        ("all_gather", lambda: out_of(dist.all_gather, [empty(3) for _ in range(SIZE)], mine), [1, 1, 1, 2, 2, 2]),
        ("all_gather_into_tensor", lambda: out_of(dist.all_gather_into_tensor, empty(6), mine), [1, 1, 1, 2, 2, 2]),
        (
            "reduce_scatter",
            lambda: out_of(dist.reduce_scatter, empty(3), [full(RANK + 1.0) for _ in range(SIZE)]),
            [TOTAL] * 3,
        ),
        ("reduce_scatter_tensor", lambda: out_of(dist.reduce_scatter_tensor, empty(3), full(1.0, 6)), [2.0] * 3),
        ("all_to_all_single", lambda: out_of(dist.all_to_all_single, empty(2), full(RANK + 1.0, 2)), [1, 2]),
        (
            "all_to_all",
            lambda: out_of(dist.all_to_all, [empty(1) for _ in range(SIZE)], [full(RANK + 1.0, 1)] * SIZE),
            [1, 2],
        ),
    ]
    with group():
        for name, call, values in calls:
            work, results = call()
            written = name != "broadcast" or RANK != 0
            assert all(result.isnan().all().item() is written for result in results), (name, results)
            work.wait()
            assert torch.cat(results).tolist() == values, (name, results)


def in_place(collective: Callable[..., Any], **options: object) -> tuple[Any, list[Tensor]]:
    tensor = full(RANK + 1.0)
    return collective(tensor, async_op=True, **options), [tensor]


def out_of(collective: Callable[..., Any], to: Tensor | list[Tensor], given: object) -> tuple[Any, list[Tensor]]:
    return collective(to, given, async_op=True), [to] if isinstance(to, Tensor) else to


def reduce_to_one_rank() -> None:
    """Only the rank that gets the result has to wait for it."""
    with group():
        mine = full(RANK + 1.0)
        work = dist.reduce(mine, dst=0, async_op=True)
        assert mine.isnan().all().item() is (RANK == 0), mine
        assert work is not None
        work.wait()
        if RANK == 0:
            expect(mine, *[TOTAL] * 3)


def received_message() -> None:
    """A message that is not waited for has not arrived."""
    with group():
        store = dist.distributed_c10d._get_default_store()
        if RANK == 0:
            for _ in range(2):
                work = dist.isend(full(5.0), dst=1)
                assert work is not None
                work.wait()
                store.set("sent", "")
        else:
            here = empty(3)
            work = dist.irecv(here, src=0)
            assert work is not None
            store.wait(["sent"])
            assert here.isnan().all().item(), here
            work.wait()
            expect(here, 5, 5, 5)
            dist.recv(here, src=0)
            expect(here, 5, 5, 5)


def waited_for_by_another_stream() -> None:
    """Only the stream that was current waits."""
    with group():
        tensor, side = full(1.0), torch.Stream(HERE)
        work = dist.all_reduce(tensor, async_op=True)
        assert work is not None
        with side:
            work.wait()
        assert tensor.isnan().all().item(), tensor
        torch.accelerator.current_stream().wait_stream(side)
        expect(tensor, *[float(SIZE)] * 3)


def input_overwritten() -> None:
    """A tensor that is read must not be written before the work is waited for."""
    with group():
        mine, everybodys = full(RANK + 1.0), empty(6)
        work = dist.all_gather_into_tensor(everybodys, mine, async_op=True)
        assert work is not None
        mine.zero_()
        work.wait()
        assert everybodys.isnan().all().item(), everybodys


def asked_until_done() -> None:
    """A rank that polls until the work is done may use the result."""
    with group():
        tensor = full(RANK + 1.0)
        work = dist.all_reduce(tensor, async_op=True)
        assert work is not None
        end = time.monotonic() + 30
        while not work.is_completed():
            assert time.monotonic() < end
        expect(tensor, *[TOTAL] * 3)


def future() -> None:
    """A callback of a future finds its tensors."""
    with group():
        tensor = full(RANK + 1.0)
        work = dist.all_reduce(tensor, async_op=True)
        assert work is not None
        doubled = work.get_future().then(lambda done: done.value()[0] * 2)
        expect(doubled.wait(), *[TOTAL * 2] * 3)
        expect(tensor, *[TOTAL] * 3)


def results_read_in_callbacks() -> None:
    """A callback of a future may read while later calls are pending and other threads wait for the device."""
    with group():
        for _ in range(2):
            tensors = [full(RANK + 1.0) for _ in range(2)]
            if RANK == 1:
                time.sleep(0.5)  # so that the calls of rank 0 are under way
            works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
            futures = [work.get_future().then(lambda done: done.value()[0] + 1) for work in works if work is not None]
            torch.accelerator.synchronize()
            for future in futures:
                expect(future.wait(), *[TOTAL + 1] * 3)
            works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
            futures = [work.get_future().then(lambda done: done.value()[0] + 1) for work in works if work is not None]
            for future in futures:
                expect(future.wait(), *[TOTAL * SIZE + 1] * 3)


def receives_out_of_turn() -> None:
    """A wait for one receive does not wait for receives that began before it."""
    with group():
        if RANK == 1:
            dist.send(full(2.0), dst=0, tag=2)
            dist.recv(here := empty(3), src=0)
            dist.send(here + 1, dst=0, tag=1)
        else:
            gradient = dist.irecv(last := empty(3), src=1, tag=1)
            activation = dist.irecv(first := empty(3), src=1, tag=2)
            assert gradient is not None
            assert activation is not None
            activation.wait()
            dist.send(first * 2, dst=1)
            gradient.wait()
            expect(last, 5, 5, 5)


def used_again_before_waited_for() -> None:
    """The library does its calls in turn: the next finds the results of the one before."""
    with group():
        tensor, everybodys = full(1.0), empty(6)
        works: list[Any] = [dist.all_reduce(tensor, async_op=True) for _ in range(3)]
        works.append(dist.all_gather_into_tensor(everybodys, tensor, async_op=True))
        works.append(dist.broadcast(tensor, src=0, async_op=True))
        for work in works:
            work.wait()
        expect(tensor, *[SIZE**3] * 3)
        expect(everybodys, *[SIZE**3] * 6)


def refused_calls_change_nothing() -> None:
    """A call that a fault ends before it begins, or that names no rank, leaves its tensors alone and has no number."""
    with group():
        tensor = full(RANK + 1.0)
        with planned_faults(Fault("raise", op="all_reduce", rank=0)):
            if RANK == 0:
                assert "it was planned" in refusal(lambda: dist.all_reduce(tensor))
            expect(tensor, *[RANK + 1.0] * 3)
            dist.all_reduce(tensor)
        expect(tensor, *[TOTAL] * 3)
        alone: Any = [dist.new_group([rank]) for rank in range(SIZE)][RANK]
        said = refusal(lambda: dist.broadcast(tensor, group=alone, group_src=5))
        assert f"simccl's broadcast on rank {RANK} was given 5 as its root, and group '" in said, said
        assert said.endswith(f"(ranks {RANK}) counts its 1 ranks from 0 to 0. Fix: use one of these"), said
        expect(tensor, *[TOTAL] * 3)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
