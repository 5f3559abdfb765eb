"""simccl takes the parts of ranks in every shape that NCCL takes, and says which it does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.backends.cpu_sim.conftest import refused

PROGRAMS = Path(__file__).with_name("parts_rank_programs.py")


def test_parts_may_be_stacked_as_well_as_one_after_the_other(on_ranks: Callable[..., list[str]]) -> None:
    on_ranks("stacked", programs=PROGRAMS)


def test_each_rank_may_have_a_part_of_its_own_size(on_ranks: Callable[..., list[str]]) -> None:
    for rank, said in enumerate(on_ranks("of_own_sizes", programs=PROGRAMS)):
        (wrong,) = refused(said)
        assert wrong == (
            f"ValueError: simccl's all_gather on rank {rank} of 2 was given a tensor of shape [5] and [{rank + 1}] to"
            " hold it. Fix: give each output the tensor's shape"
        )


def test_a_rank_that_sends_to_itself_is_told(on_ranks: Callable[..., list[str]]) -> None:
    for rank, said in enumerate(on_ranks("to_oneself", programs=PROGRAMS)):
        (wrong,) = refused(said)
        assert wrong == (
            f"ValueError: simccl's recv on rank {rank} of 2 was given that rank itself as its peer, but sends only to"
            " other ranks. Fix: copy the tensor with copy_()"
        )
