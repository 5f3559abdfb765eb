"""A future of a simccl call: what follows on it may call the group again, and it has its value after a wait."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).with_name("future_rank_programs.py")


@pytest.mark.parametrize("program", ["calls_that_follow", "values_after_a_wait"])
@pytest.mark.parametrize("streams", ["immediate", "deferred"])
def test_a_future_has_its_value_after_a_wait(on_ranks: Callable[..., list[str]], streams: str, program: str) -> None:
    for checks in "01":
        environ = {"NORTHBRIDGE_CPU_SIM_STREAMS": streams, "NORTHBRIDGE_CPU_SIM_CHECK_COLLECTIVES": checks}
        on_ranks(program, environ=environ, programs=PROGRAMS)


def test_gradients_of_ddp_are_compressed_by_powersgd(on_ranks: Callable[..., list[str]]) -> None:
    on_ranks("compressed_gradients", programs=PROGRAMS)
