"""The simulated TCCL: what it reduces, and what it refuses."""

from __future__ import annotations

import pytest
from tests.backends.simulation.processes import OnRanks

TRY = """
def tried(act):
    try:
        return act()
    except Exception as error:
        return str(error).splitlines()[0]
rank = dist.get_rank()
"""


@pytest.mark.shows("tccl reduces by sum, product, min, max")
def test_it_has_four_reductions_and_no_average(on_ranks: OnRanks) -> None:
    program = (
        TRY
        + """
def reduce(op):
    tensor = torch.tensor([2.0 + rank], device="sdaa")
    return tried(lambda: (dist.all_reduce(tensor, op), tensor.item())[1])
print([reduce(op) for op in (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX)])
print(reduce(dist.ReduceOp.AVG))
"""
    )

    for said in on_ranks(program):
        assert said.splitlines()[-2:] == ["[5.0, 6.0, 2.0, 3.0]", "TCCL has no such reduction: avg"]


@pytest.mark.shows("tccl dtypes")
def test_it_refuses_the_dtypes_that_no_map_of_the_vendors_has(on_ranks: OnRanks) -> None:
    program = (
        TRY
        + """
for dtype in (torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.int16):
    tensor = torch.ones(1, dtype=dtype, device="sdaa")
    print(tried(lambda: (dist.broadcast(tensor, 0), "carried")[1]))
"""
    )

    for said in on_ranks(program):
        assert said.splitlines()[-6:] == [
            *["carried"] * 4,
            "TCCL has no such data type: bool",
            "TCCL has no such data type: int16",
        ]
