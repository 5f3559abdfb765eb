"""A library that lacks things, and converts others, as a device.toml says: two ranks in processes of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.backends.cpu_sim.conftest import FLINT

Ranks = Callable[[str], list[list[str]]]


@pytest.fixture
def on_flint_ranks(on_ranks: Callable[..., list[str]]) -> Ranks:
    """Run a function of limits_rank_programs.py on two ranks and return the lines that each printed."""

    def run(function: str) -> list[list[str]]:
        programs = Path(__file__).with_name("limits_rank_programs.py")
        said = on_ranks(function, environ={"FLINT_FILE": str(FLINT), "PYTHONWARNINGS": "ignore"}, programs=programs)
        return [lines.splitlines() for lines in said]

    return run


def test_what_the_library_lacks_is_refused_with_its_sentence(on_flint_ranks: Ranks) -> None:
    for said in on_flint_ranks("lacking"):
        assert said == [
            "flintccl cannot multiply",
            "flintccl cannot average",
            "flintccl cannot average",
            "flintccl cannot carry int16",
            "flintccl cannot carry int16",
            "flintccl has to know the sender",
            "flintccl cannot scatter sums of int32",
        ]


def test_unsupported_dtype_travels_as_float32(on_flint_ranks: Ranks) -> None:
    on_flint_ranks("converted")


def test_a_conversion_makes_the_call_wait_for_its_end(on_flint_ranks: Ranks) -> None:
    for said in on_flint_ranks("waited_for"):
        assert said == ["True [3]", "[3.0]"]


def test_parallel_training_keeps_the_ranks_equal_and_ends_well(on_flint_ranks: Ranks) -> None:
    for said in on_flint_ranks("parallel_training"):
        assert said == ["True"]
