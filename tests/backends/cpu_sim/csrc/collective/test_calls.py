"""simccl, the chip's collective library: ranks in processes of their own, which find nothing wrong or are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.backends.cpu_sim.conftest import FLINT, refused

from northbridge_conformance.runs.processes import reserve_port

Ranks = Callable[..., list[str]]

HERE = Path(__file__).parent
CALLS = HERE / "call_programs.py"
GROUPS = HERE / "group_programs.py"
RIGHT = {
    "rank_programs.py": "received_from_anybody work_results",
    "call_programs.py": "averages_of_each_dtype stacked converted/flint waited_for/flint",
    "group_programs.py": (
        "every_dtype_moves uneven split/4 coalesced coalesced_in_vain fault_in_a_future/immediate"
        " receives_that_nobody_meets receives_that_nobody_meets/immediate"
        " random_dtensors"
    ),
    "stream_rank_programs.py": (
        "each_collective reduce_to_one_rank received_message waited_for_by_another_stream input_overwritten"
        " asked_until_done future results_read_in_callbacks receives_out_of_turn used_again_before_waited_for"
        " refused_calls_change_nothing"
    ),
}
"""The functions that check everything themselves; behind a slash the number of ranks, or one of :data:`OTHERS`."""

OTHERS = {"immediate": {"NORTHBRIDGE_CPU_SIM_STREAMS": "immediate"}, "flint": {"FLINT_FILE": str(FLINT)}}


@pytest.mark.parametrize(
    ("programs", "program"), [(file, name) for file, names in RIGHT.items() for name in names.split()]
)
def test_ranks_find_nothing_wrong(on_ranks: Ranks, programs: str, program: str) -> None:
    function, _, other = program.partition("/")
    size = int(other) if other.isdigit() else 2
    on_ranks(function, size, OTHERS.get(other), HERE / programs)


def test_collectives_on_temporaries_own_their_memory(on_ranks: Ranks) -> None:
    for said in on_ranks("temporaries"):
        assert said.splitlines()[-1] == "held True left 0"


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
    on_ranks(program, programs=CALLS, environ=options)


@pytest.mark.parametrize("program", ["calls_that_follow", "values_after_a_wait"])
@pytest.mark.parametrize("streams", ["immediate", "deferred"])
def test_a_future_has_its_value_after_a_wait(on_ranks: Ranks, streams: str, program: str) -> None:
    for checks in "01":
        environ = {"NORTHBRIDGE_CPU_SIM_STREAMS": streams, "NORTHBRIDGE_CPU_SIM_CHECK_COLLECTIVES": checks}
        on_ranks(program, environ=environ, programs=CALLS)


def test_unchecked_calls_end_in_turn(on_ranks: Ranks) -> None:
    environ = {"NORTHBRIDGE_CPU_SIM_CHECK_COLLECTIVES": "0", "NORTHBRIDGE_CPU_SIM_STREAMS": "immediate"}
    on_ranks("unchecked", environ=environ, programs=GROUPS)


def test_sends_and_receives_are_done_without_being_waited_for(on_ranks: Ranks) -> None:
    first, _ = on_ranks("asynchronous", programs=GROUPS)

    (waited,) = refused(first)
    assert "simccl's recv on rank 0 of 2 failed: " in waited


CANNOT_SUM = (
    "RuntimeError: simccl's all_reduce was asked for the sum of int16, which it cannot reduce. Fix: convert the tensor"
    " to a wider dtype, such as int64"
)
BOOLS = (
    "RuntimeError: simccl's all_reduce was asked for the average (ReduceOp.AVG) of bool, which is not a bool. Fix:"
    " convert the tensor to float32, or ask for 'any' (ReduceOp.MAX) or 'all' (ReduceOp.MIN)"
)
OWN_SIZES = (
    "ValueError: simccl's all_gather on rank {rank} of 2 was given a tensor of shape [5] and [{more}] to hold it. Fix:"
    " give each output the tensor's shape"
)
TO_ONESELF = (
    "ValueError: simccl's recv on rank {rank} of 2 was given that rank itself as its peer, but sends only to other"
    " ranks. Fix: copy the tensor with copy_()"
)
STRIDED = (
    "RuntimeError: simccl's all_reduce was given a tensor of float32 whose shape [3] and strides [2] are not"
    " contiguous. Fix: x.contiguous()"
)
MIXED = (
    "RuntimeError: simccl's all_gather was given a tensor on cpu, but sends only those on cpu_sim. Fix: x.to('cpu_sim')"
)


@pytest.mark.parametrize(
    ("programs", "program", "expected"),
    [
        (
            GROUPS,
            "what_cannot_be_reduced",
            (
                CANNOT_SUM,
                "the sum of uint16",
                "the sum of float8_e5m2, which it cannot reduce. Fix: convert the tensor to a wider dtype",
                "the band of float32, which has no bits to combine",
                "simccl's reduce_scatter_tensor was asked for the sum of int16",
            ),
        ),
        (
            GROUPS,
            "what_cannot_be_carried",
            (
                STRIDED,
                "simccl's send was given a tensor of float32 whose shape [2, 3] and strides [1, 2]",
                MIXED,
                "tensors on {here} and {there}, but one call takes one device. Fix: x.to('{here}')",
                "simccl's all_reduce was given a tensor to write whose memory holds the negatives",
            ),
        ),
        (
            CALLS,
            "refusals",
            (
                BOOLS,
                "simccl's all_reduce was asked for a sum with a factor (ReduceOp.PREMUL_SUM) of int64",
                "simccl's reduce_scatter_tensor was asked for the band of float32",
            ),
        ),
        (CALLS, "of_own_sizes", (OWN_SIZES,)),
        (CALLS, "to_oneself", (TO_ONESELF,)),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_call_that_makes_no_sense_is_refused(
    on_ranks: Ranks, programs: Path, program: str, expected: tuple[str, ...]
) -> None:
    for rank, said in enumerate(on_ranks(program, programs=programs)):
        told = refused(said)
        assert len(told) == len(expected)
        for found, words in zip(told, expected, strict=True):
            words = words.format(rank=rank, more=rank + 1, here=f"cpu_sim:{rank}", there=f"cpu_sim:{2 + rank}")
            assert found == words if words.startswith(("RuntimeError", "ValueError")) else words in found
        assert program != "what_cannot_be_carried" or told[-1].endswith("Fix: x.resolve_neg()")


def test_what_another_library_lacks_is_refused_in_its_words(on_ranks: Ranks) -> None:
    """As the device.toml of a made-up chip says."""
    for said in on_ranks("lacking", environ=OTHERS["flint"], programs=CALLS):
        assert [each.removeprefix("RuntimeError: ") for each in refused(said)] == [
            "flintccl cannot multiply",
            "flintccl cannot average",
            "flintccl cannot carry int16",
            "flintccl cannot carry int16",
            "flintccl has to know the sender",
            "flintccl cannot scatter sums of int32",
        ]
