"""Lazy and eager mode."""

from __future__ import annotations

import pytest
from tests.backends.hpu.gaudi import GAUDI
from tests.backends.simulation.processes import Run

COUNT = "from northbridge_hpu.simulated import markers\n"


@pytest.mark.parametrize(
    ("release", "variable", "lazy"),
    [
        ("1.19", None, True),
        ("1.22", None, False),
        ("1.19", "0", False),
        ("1.22", "1", True),
        ("1.22", "2", True),
    ],
)
def test_the_variable_or_else_the_release_decides(run: Run, release: str, variable: str | None, lazy: bool) -> None:
    said = {} if variable is None else {"PT_HPU_LAZY_MODE": variable}
    assert run("print(htcore.is_lazy())", NORTHBRIDGE_HPU_SIM_RELEASE=release, **said).endswith(f"{lazy}\n")


def test_the_mode_is_decided_once(run: Run) -> None:
    program = """
    import os
    os.environ["PT_HPU_LAZY_MODE"] = "0"
    from habana_frameworks.torch.utils.internal import is_lazy
    print(is_lazy(), htcore.is_lazy())
    """
    assert run(program, PT_HPU_LAZY_MODE="1") == "True True\n"


def test_markers_count_in_lazy_mode(run: Run) -> None:
    program = COUNT + "htcore.mark_step(); htcore.mark_step('hpu', sync=True); torch.hpu.synchronize()\n"
    assert run(program + "print(markers.placed)", PT_HPU_LAZY_MODE="1") == "3\n"


def test_markers_do_nothing_in_eager_mode_and_the_log_says_so(run: Run) -> None:
    said = run(
        COUNT + "htcore.mark_step(); torch.hpu.synchronize(); print(markers.placed)",
        first="import logging; logging.basicConfig(format='%(message)s')\n" + GAUDI.imports,
        PT_HPU_LAZY_MODE="0",
        PT_HPU_AUTOLOAD="0",
    )
    assert said == "mark_step has no effect in eager mode\n0\n"
