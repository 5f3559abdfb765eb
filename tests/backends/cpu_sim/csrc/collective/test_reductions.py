"""simccl's reductions that Gloo does not have: the average, and the sum with a factor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.backends.cpu_sim.conftest import refused

Ranks = Callable[..., list[str]]
PROGRAMS = Path(__file__).with_name("reduction_rank_programs.py")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"NORTHBRIDGE_CPU_SIM_CHECK_COLLECTIVES": "0"},
        {"NORTHBRIDGE_CPU_SIM_CHECK_COLLECTIVES": "0", "NORTHBRIDGE_CPU_SIM_STREAMS": "immediate"},
    ],
    ids=["strict", "unchecked", "mild"],
)
@pytest.mark.parametrize("program", ["averages", "averages_in_the_background", "sums_with_factors"])
def test_reductions_that_gloo_lacks(on_ranks: Ranks, program: str, options: dict[str, str]) -> None:
    on_ranks(program, programs=PROGRAMS, environ=options)


def test_average_keeps_dtype_and_truncates_integers(on_ranks: Ranks) -> None:
    on_ranks("averages_of_each_dtype", programs=PROGRAMS)


def test_senseless_reduction_is_refused(on_ranks: Ranks) -> None:
    for said in on_ranks("refusals", programs=PROGRAMS):
        bools, wholes, bits = refused(said)
        assert bools == (
            "RuntimeError: simccl's all_reduce was asked for the average (ReduceOp.AVG) of bool, which is not a bool. "
            "Fix: convert the tensor to float32, or ask for 'any' (ReduceOp.MAX) or 'all' (ReduceOp.MIN)"
        )
        assert "simccl's all_reduce was asked for a sum with a factor (ReduceOp.PREMUL_SUM) of int64" in wholes
        assert "simccl's reduce_scatter_tensor was asked for the band of float32" in bits
