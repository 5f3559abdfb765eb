"""A library that lacks things, and converts others, as a device.toml says: two ranks in processes of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.backends.cpu_sim.conftest import POSED

Ranks = Callable[[str], list[list[str]]]


@pytest.fixture
def on_posed_ranks(on_ranks: Callable[..., list[str]]) -> Ranks:
    """Run a function of limits_rank_programs.py on two ranks and return the lines that each printed."""

    def run(function: str) -> list[list[str]]:
        programs = Path(__file__).with_name("limits_rank_programs.py")
        said = on_ranks(function, environ={"POSED_FILE": str(POSED), "PYTHONWARNINGS": "ignore"}, programs=programs)
        return [lines.splitlines() for lines in said]

    return run


def test_what_the_library_lacks_is_refused_with_its_sentence(on_posed_ranks: Ranks) -> None:
    for said in on_posed_ranks("lacking"):
        assert said == [
            "posedccl cannot multiply",
            "posedccl cannot average",
            "posedccl cannot average",
            "posedccl cannot carry int16",
            "posedccl cannot carry int16",
            "posedccl has to know the sender",
            "posedccl cannot scatter sums of int32",
        ]


def test_unsupported_dtype_travels_as_float32(on_posed_ranks: Ranks) -> None:
    on_posed_ranks("converted")


def test_a_conversion_makes_the_call_wait_for_its_end(on_posed_ranks: Ranks) -> None:
    for said in on_posed_ranks("waited_for"):
        assert said == ["True [3]", "[3.0]"]


def test_parallel_training_keeps_the_ranks_equal_and_ends_well(on_posed_ranks: Ranks) -> None:
    for said in on_posed_ranks("parallel_training"):
        assert said == ["True"]
