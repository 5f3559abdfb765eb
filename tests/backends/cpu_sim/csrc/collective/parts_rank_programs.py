"""The programs of ranks in test_parts.py: `python parts_rank_programs.py <function>`, under RANK and so on."""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch
import torch.distributed as dist
from tests.backends.cpu_sim.csrc.collective.rank_programs import RANK, expect, full, group, refusal, started


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


if __name__ == "__main__":
    globals()[sys.argv[1]]()
