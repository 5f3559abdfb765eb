"""simccl, the chip's collective library: two ranks in processes of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.backends.cpu_sim.conftest import refused

from northbridge_conformance.runs.processes import reserve_port

Ranks = Callable[..., list[str]]
PROGRAMS = Path(__file__).with_name("call_programs.py")


def test_every_collective_gives_the_right_numbers_on_the_device(on_ranks: Ranks) -> None:
    on_ranks("every_collective")


def test_objects_travel_and_gradients_flow_through_collectives(on_ranks: Ranks) -> None:
    on_ranks("objects_and_gradients")


def test_collectives_on_temporaries_own_their_memory(on_ranks: Ranks) -> None:
    for said in on_ranks("temporaries"):
        assert said.splitlines()[-1] == "held True left 0"


def test_works_and_futures_hold_device_tensors(on_ranks: Ranks) -> None:
    on_ranks("work_results")


def test_what_simccl_lacks_is_refused_with_what_to_do(on_ranks: Ranks) -> None:
    for said in on_ranks("refusals"):
        on_cpu, options = refused(said)
        assert "No backend type associated with device type cpu" in on_cpu
        assert "simccl accepts no pg_options" in options


def test_simccl_works_beside_gloo_and_takes_a_device_id(on_ranks: Ranks) -> None:
    on_ranks("beside_gloo", environ={"SECOND_PORT": str(reserve_port())})


def test_absent_rank_ends_the_others_within_the_timeout(on_ranks: Ranks) -> None:
    said, _ = on_ranks("missing_rank")

    refusals = refused(said)
    assert len(refusals) == 3
    assert "Timed out waiting 2000ms" in refusals[0]
    for refusal in refusals:
        assert "simccl's all_reduce on rank 0 failed: " in refusal


def test_parallel_training_is_gloos_on_the_cpu_to_the_bit(on_ranks: Ranks) -> None:
    for said in on_ranks("parallel_training"):
        assert "Time stats are currently only collected" not in said


def test_a_hook_that_compresses_gradients_to_fp16_averages_them(on_ranks: Ranks) -> None:
    for said in on_ranks("compressed_gradients"):
        assert said.splitlines()[-1] == "halved torch.float32"


def test_ranks_with_uneven_inputs_join(on_ranks: Ranks) -> None:
    assert [said.splitlines()[-1] for said in on_ranks("uneven_inputs")] == ["3", "7"]


def test_a_destroyed_group_has_let_go_of_gloo_and_says_so(on_ranks: Ranks) -> None:
    for said in on_ranks("destroyed_group"):
        assert refused(said) == ["RuntimeError: simccl has been shut down. Fix: make another process group"]


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


@pytest.mark.parametrize("program", ["calls_that_follow", "values_after_a_wait"])
@pytest.mark.parametrize("streams", ["immediate", "deferred"])
def test_a_future_has_its_value_after_a_wait(on_ranks: Ranks, streams: str, program: str) -> None:
    for checks in "01":
        environ = {"NORTHBRIDGE_CPU_SIM_STREAMS": streams, "NORTHBRIDGE_CPU_SIM_CHECK_COLLECTIVES": checks}
        on_ranks(program, environ=environ, programs=PROGRAMS)


def test_gradients_of_ddp_are_compressed_by_powersgd(on_ranks: Ranks) -> None:
    on_ranks("compressed_gradients", programs=PROGRAMS)


def test_parts_may_be_stacked_as_well_as_one_after_the_other(on_ranks: Ranks) -> None:
    on_ranks("stacked", programs=PROGRAMS)


def test_each_rank_may_have_a_part_of_its_own_size(on_ranks: Ranks) -> None:
    for rank, said in enumerate(on_ranks("of_own_sizes", programs=PROGRAMS)):
        (wrong,) = refused(said)
        assert wrong == (
            f"ValueError: simccl's all_gather on rank {rank} of 2 was given a tensor of shape [5] and [{rank + 1}] to"
            " hold it. Fix: give each output the tensor's shape"
        )


def test_a_rank_that_sends_to_itself_is_told(on_ranks: Ranks) -> None:
    for rank, said in enumerate(on_ranks("to_oneself", programs=PROGRAMS)):
        (wrong,) = refused(said)
        assert wrong == (
            f"ValueError: simccl's recv on rank {rank} of 2 was given that rank itself as its peer, but sends only to"
            " other ranks. Fix: copy the tensor with copy_()"
        )
