"""simccl, the chip's collective library: two ranks in processes of their own."""

from __future__ import annotations

from collections.abc import Callable

from tests.backends.cpu_sim.conftest import refused

from northbridge_conformance.runs.ports import reserve_port

Ranks = Callable[..., list[str]]


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
