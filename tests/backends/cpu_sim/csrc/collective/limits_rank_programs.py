"""The programs of ranks in test_calls.py: the library of a made-up chip, which lacks and converts things.

`python limits_rank_programs.py <function>`, under RANK and so on; what a rank prints is for the test to read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from northbridge_cpu_sim import SimulatedDevice, install

RANK = int(os.environ["RANK"])
INTEGER, BRAIN, HALF_INTEGER = torch.int32, torch.bfloat16, torch.int16

install(SimulatedDevice.read(Path(os.environ["FLINT_FILE"])), acquire=lambda: RANK)


@contextmanager
def group() -> Iterator[None]:
    dist.init_process_group("flintccl")
    yield
    dist.destroy_process_group()


def here(*values: float, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(values, dtype=dtype, device="flint")


def refuse(call: Callable[[], object]) -> None:
    try:
        call()
    except RuntimeError as error:
        print(error, flush=True)
    else:
        raise AssertionError("nothing was refused")


def started(tensor: Tensor) -> Any:
    return dist.all_reduce(tensor, async_op=True)


def lacking() -> None:
    with group():
        refuse(lambda: dist.all_reduce(here(1), op=dist.ReduceOp.PRODUCT))
        refuse(lambda: dist.reduce(here(1), 0, op=dist.ReduceOp.AVG))
        refuse(lambda: dist.reduce_scatter_tensor(here(1), here(1, 2), op=dist.ReduceOp.AVG))
        refuse(lambda: dist.broadcast(here(1, dtype=HALF_INTEGER), 0))
        refuse(lambda: dist.all_gather([here(1, dtype=HALF_INTEGER)] * 2, here(1, dtype=HALF_INTEGER)))
        refuse(lambda: dist.recv(here(1)))
        refuse(lambda: dist.reduce_scatter(here(1, dtype=INTEGER), [here(1, dtype=INTEGER)] * 2))


def converted() -> None:
    with group():
        dist.all_reduce(x := here(2**24 + RANK, dtype=INTEGER))
        assert x.tolist() == [2**25], x  # and not 2 ** 25 + 1
        dist.all_reduce(x := here(2**24 + 1 - RANK, dtype=INTEGER), op=dist.ReduceOp.MAX)
        assert x.tolist() == [2**24], x
        dist.all_reduce(x := here(300, RANK, dtype=HALF_INTEGER))
        assert x.tolist() == [600, 1], x
        dist.all_reduce(x := torch.tensor([True, RANK == 1, False], device="flint"))
        assert x.tolist() == [True, True, False], x
        dist.all_reduce(x := here(0.1 * (RANK + 1), dtype=torch.float64))
        assert torch.equal(x.cpu(), x.cpu().float().double()), x
        dist.all_reduce(x := here(1.5, dtype=BRAIN))
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
    with group():
        work = started(x := here(1 + RANK, dtype=INTEGER))
        print(work.is_completed(), x.tolist())
        work.wait()
        assert work.get_future().value()[0].data_ptr() == x.data_ptr()
        started(x := here(1 + RANK)).wait()
        print(x.tolist())


def parallel_training() -> None:
    with group():
        torch.manual_seed(RANK)
        net = DistributedDataParallel(nn.Linear(3, 2).to("flint"))
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(3):
            torch.autograd.backward(net(torch.full((4, 3), RANK + 1.0, device="flint")).square().mean())
            optimizer.step()
            optimizer.zero_grad()
        gathered: list[object] = [None, None]
        dist.all_gather_object(gathered, [value.tolist() for value in net.state_dict().values()])
        print(gathered[0] == gathered[1])


if __name__ == "__main__":
    globals()[sys.argv[1]]()
