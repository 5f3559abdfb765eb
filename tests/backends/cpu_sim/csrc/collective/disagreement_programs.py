"""The programs of ranks in test_disagreement.py, which call different collectives.

`python disagreement_programs.py <function>`, under RANK and so on. Each rank prints what it was told.
"""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist
from tests.backends.cpu_sim.csrc.collective.rank_programs import HERE, RANK, expect, full, group, refusal, started


def different() -> None:
    first, ops = RANK == 0, dist.ReduceOp
    with group():
        print(refusal(lambda: dist.all_reduce(full(1.0)) if first else dist.broadcast(full(1.0), 0)))
        print(refusal(lambda: dist.all_reduce(full(1.0, 3 if first else 4))))
        print(refusal(lambda: dist.all_reduce(full(1.0, dtype=torch.float32 if first else torch.int32))))
        print(refusal(lambda: dist.all_reduce(full(1.0), op=ops.SUM if first else ops.MAX)))
        print(refusal(lambda: dist.broadcast(full(1.0), RANK)))
        print(refusal(lambda: dist.all_to_all_single(full(1.0, 3), full(1.0, 3), [1, 2], [1, 2] if first else [2, 1])))
        print(refusal(started(dist.all_reduce, full(1.0, 3 if first else 4)).wait))
        dist.all_reduce(x := full(1.0))  # the group goes on
        expect(x, 2, 2, 2)


def one_of_four() -> None:
    with group():
        dist.barrier()
        print(refusal(dist.barrier if RANK == 2 else lambda: dist.all_reduce(full(1.0))))


def correct() -> None:
    """Order between ranks that is right, and in which a check that waits at the call would never end."""
    with group():
        pair = dist.new_group([0, 1])
        if RANK == 0:
            first = started(dist.all_reduce, x := full(1.0))
            second = started(dist.all_reduce, y := full(2.0), group=pair)
            dist.send(full(3.0), 1)
            first.wait()
            second.wait()
        else:
            second = started(dist.all_reduce, y := full(2.0), group=pair)
            dist.recv(torch.empty(3, device=HERE), 0)
            dist.all_reduce(x := full(1.0))
            second.wait()
        expect(x, 2, 2, 2)
        expect(y, 4, 4, 4)
        works = [started(dist.all_reduce, full(1.0)) for _ in range(200)]
        for work in reversed(works):
            work.wait()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
