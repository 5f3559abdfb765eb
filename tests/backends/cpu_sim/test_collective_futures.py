"""What follows on the future of a simccl call may call the group again, and wait for that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

PROGRAMS = Path(__file__).with_name("parts_programs.py")


def test_a_call_that_follows_on_a_future_may_be_waited_for_there(on_ranks: Callable[..., list[str]]) -> None:
    for streams in ("immediate", "deferred"):
        for checks in "01":
            environ = {"NORTHBRIDGE_CPU_SIM_STREAMS": streams, "NORTHBRIDGE_CPU_SIM_CHECK_COLLECTIVES": checks}
            on_ranks("calls_that_follow", environ=environ, programs=PROGRAMS)


def test_gradients_of_ddp_are_compressed_by_powersgd(on_ranks: Callable[..., list[str]]) -> None:
    on_ranks("compressed_gradients", programs=PROGRAMS)
