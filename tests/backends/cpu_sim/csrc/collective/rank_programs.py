"""The programs of ranks in test_calls.py: `python rank_programs.py <function>`, under RANK and so on.

A rank that finds something wrong ends with an error; what it prints is for the test to read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import northbridge
from northbridge_cpu_sim import SimulatedDevice, install

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if "FLINT_FILE" in os.environ:
    install(SimulatedDevice.read(Path(os.environ["FLINT_FILE"])), acquire=lambda: RANK)
    HERE, LIBRARY = torch.device("flint", 0), "flintccl"
else:
    northbridge.load("cpu_sim")
    HERE, LIBRARY = torch.device("cpu_sim", RANK), "simccl"


@contextmanager
def group(backend: str = LIBRARY, timeout_s: float = 60.0) -> Iterator[None]:
    torch.accelerator.set_device_index(HERE.index)
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


def received_from_anybody() -> None:
    with group():
        if RANK == 0:
            dist.send(full(8.0), dst=1, tag=4)
        else:
            sender = dist.recv(x := full(0.0), tag=4)
            assert sender == 0
            expect(x, 8, 8, 8)


def check_sum(work: Any, expected: float) -> None:
    work.wait()
    (result,) = work.get_future().value()
    assert set(result.tolist()) == {expected}


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
        assert work.wait()
        (reduced,) = work.get_future().value()
        assert reduced.data_ptr() == x.data_ptr()
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
