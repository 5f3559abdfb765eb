"""simccl as torch's own libraries are used: every dtype, groups, coalesced and asynchronous calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.backends.cpu_sim.conftest import refused

Run = Callable[..., list[str]]


@pytest.fixture
def run(on_ranks: Callable[..., list[str]]) -> Run:
    """Run a function of group_programs.py on so many ranks and return what each printed."""

    def on(function: str, size: int = 2, **environ: str) -> list[str]:
        return on_ranks(function, size, environ=environ, programs=Path(__file__).with_name("group_programs.py"))

    return on


def test_every_dtype_moves_bit_by_bit(run: Run) -> None:
    run("every_dtype_moves")


def test_what_cannot_be_reduced_is_refused_in_our_words(run: Run) -> None:
    for said in run("what_cannot_be_reduced"):
        short, unsigned, eighth, bits, scattered = refused(said)
        assert short == (
            "RuntimeError: simccl's all_reduce was asked for the sum of int16, which it cannot reduce. Fix:"
            " convert the tensor to a wider dtype, such as int64"
        )
        assert "the sum of uint16" in unsigned
        assert "the sum of float8_e5m2, which it cannot reduce. Fix: convert the tensor to a wider dtype" in eighth
        assert "the band of float32, which has no bits to combine" in bits
        assert "simccl's reduce_scatter_tensor was asked for the sum of int16" in scattered


def test_uneven_parts_arrive_where_they_belong(run: Run) -> None:
    run("uneven")


def test_groups_of_some_ranks_and_meshes_reduce_among_themselves(run: Run) -> None:
    run("subgroups", 4)


def test_a_group_is_split(run: Run) -> None:
    run("split", 4)


def test_coalesced_calls_are_waited_for_as_one(run: Run) -> None:
    run("coalesced")


def test_sends_and_receives_are_done_without_being_waited_for(run: Run) -> None:
    first, _ = run("asynchronous")

    (waited,) = refused(first)
    assert "simccl's recv on rank 0 of 2 failed: " in waited


def test_unchecked_calls_end_in_turn(run: Run) -> None:
    run("unchecked", NORTHBRIDGE_CPU_SIM_CHECK_COLLECTIVES="0", NORTHBRIDGE_CPU_SIM_STREAMS="immediate")


def test_tensors_that_the_library_cannot_carry_are_refused(run: Run) -> None:
    for rank, said in enumerate(run("what_cannot_be_carried")):
        strided, transposed, mixed, other, negative = refused(said)
        here, there = f"cpu_sim:{rank}", f"cpu_sim:{2 + rank}"
        assert strided == (
            "RuntimeError: simccl's all_reduce was given a tensor of float32 whose shape [3] and strides [2] are not"
            " contiguous. Fix: x.contiguous()"
        )
        assert "simccl's send was given a tensor of float32 whose shape [2, 3] and strides [1, 2]" in transposed
        assert mixed == (
            "RuntimeError: simccl's all_gather was given a tensor on cpu, but sends only those on cpu_sim."
            " Fix: x.to('cpu_sim')"
        )
        assert f"tensors on {here} and {there}, but one call takes one device. Fix: x.to('{here}')" in (other)
        assert "simccl's all_reduce was given a tensor to write whose memory holds the negatives" in negative
        assert negative.endswith("Fix: x.resolve_neg()")


def test_failed_coalesced_block_does_not_hold_the_next(run: Run) -> None:
    run("coalesced_in_vain")


def test_fault_without_a_result_fails_its_future(run: Run) -> None:
    run("fault_in_a_future", NORTHBRIDGE_CPU_SIM_STREAMS="immediate")


@pytest.mark.parametrize("streams", ["deferred", "immediate"])
def test_a_group_ends_though_nobody_sends_what_is_received(run: Run, streams: str) -> None:
    run("receives_that_nobody_meets", NORTHBRIDGE_CPU_SIM_STREAMS=streams)


def test_functional_collectives_compute_and_differentiate(run: Run) -> None:
    run("functional")


def test_objects_travel_in_every_way(run: Run) -> None:
    run("objects")
