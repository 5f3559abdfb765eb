"""HCCL between ranks: what is exact, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable

Ranks = Callable[..., "list[str]"]

BEGIN = """
import json, os
from datetime import timedelta
import northbridge
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
backend = northbridge.load("hpu")
import torch
import torch.distributed as dist
backend.bridge.prepare_rank(index=rank, local_rank=rank, world_size=size)
backend.device.select(rank)
device = backend.device.root(rank)
collective = backend.collective
collective.initialize(rank=rank, world_size=size, timeout=timedelta(seconds=60), device=device)
collective.assert_carries(device)
def reduce(values, op, dtype):
    return collective.all_reduce(torch.tensor(values, dtype=dtype, device=device), op).tolist()
told = {}
"""
END = "\nprint(json.dumps(told))\ndist.destroy_process_group()\n"


def told(said: list[str]) -> list[dict[str, object]]:
    return [json.loads(each.strip().splitlines()[-1]) for each in said]


def test_whole_numbers_above_what_float32_holds_are_exact(on_ranks: Ranks) -> None:
    program = """
big = 2**24 + 1
told["sum"] = reduce([big + rank], "sum", torch.int64)
told["max"] = reduce([big + rank], "max", torch.int64)
told["min of int32"] = reduce([big + rank], "min", torch.int32)
told["mean"] = reduce([big + 2 * rank], "mean", torch.int64)
told["any"] = reduce([rank == 1, False], "sum", torch.bool)
told["halves"] = reduce([0.5 + rank], "sum", torch.float16)
"""

    found = told(on_ranks(program + END, first=BEGIN))

    expected = {
        "sum": [2**25 + 3],
        "max": [2**24 + 2],
        "min of int32": [2**24 + 1],
        "mean": [2**24 + 2],
        "any": [True, False],
        "halves": [2.0],
    }
    assert found == [expected] * 2


def test_the_library_itself_would_have_rounded_them(on_ranks: Ranks) -> None:
    program = """
tensor = torch.tensor([2**24 + 1 + rank], device=device)
dist.all_reduce(tensor)
told["sum"] = tensor.tolist()
"""

    assert told(on_ranks(program + END, first=BEGIN)) == [{"sum": [2**25]}] * 2


def test_a_mean_is_a_sum_and_a_division(on_ranks: Ranks) -> None:
    program = """
told["mean"] = reduce([1.0 + rank, -4.0], "mean", torch.float32)
try:
    dist.all_reduce(torch.ones(1, device=device), dist.ReduceOp.AVG)
except RuntimeError as error:
    told["the library's"] = "Unsupported ReduceOp" in str(error)
"""

    assert told(on_ranks(program + END, first=BEGIN)) == [{"mean": [1.5, -4.0], "the library's": True}] * 2


def test_a_product_is_refused_with_what_to_do(on_ranks: Ranks) -> None:
    program = """
try:
    reduce([2.0], "product", torch.float32)
except northbridge.CollectiveError as error:
    told["error"] = str(error)
"""

    sentence = (
        "'hccl' cannot reduce by 'product': HCCL has only sum, min and max; reduce the logarithms by 'sum', or"
        " all_gather and multiply"
    )
    assert told(on_ranks(program + END, first=BEGIN)) == [{"error": sentence}] * 2


def test_four_ranks(on_ranks: Ranks) -> None:
    program = "told['sum'] = reduce([float(rank)], 'sum', torch.float32)\ncollective.barrier()"

    assert told(on_ranks(program + END, size=4, first=BEGIN)) == [{"sum": [6.0]}] * 4
