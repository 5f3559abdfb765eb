"""The record of what is touched of the vendor's software."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.backends.simulation.processes import Run


@pytest.fixture
def recorded(run: Run, tmp_path: Path) -> Callable[[str], list[str]]:
    """Run a program and return the lines of its record."""

    def recorded(program: str) -> list[str]:
        run(program, NORTHBRIDGE_CPU_SIM_RECORD=str(tmp_path / "record"))
        return (tmp_path / "record" / "touched").read_text().splitlines()

    return recorded


def test_reads_and_calls_are_written_down_under_torchs_name(recorded: Callable[[str], list[str]]) -> None:
    lines = recorded("count = torch.hpu.device_count\ncount()\nhtcore.hpu.current_device()\nhtcore.mark_step")
    assert {"read torch.hpu.device_count", "call torch.hpu.device_count", "call torch.hpu.current_device"} <= set(lines)
    assert "read habana_frameworks.torch.core.mark_step" in lines
    assert "call habana_frameworks.torch.core.mark_step" not in lines


def test_what_is_absent_is_written_down_too(recorded: Callable[[str], list[str]]) -> None:
    assert "read torch.hpu.no_such_thing" in recorded("getattr(torch.hpu, 'no_such_thing', None)")


def test_variables_and_replaced_functions_are_written_down(recorded: Callable[[str], list[str]]) -> None:
    lines = recorded("torch.manual_seed(1)")
    assert {"read MASTER_PORT", "write MASTER_PORT", "call torch.manual_seed"} <= set(lines)


def test_what_the_simulation_does_itself_is_not_written_down(recorded: Callable[[str], list[str]]) -> None:
    lines = recorded("torch.hpu.current_device()")
    assert [line for line in lines if line.startswith(("read torch.hpu.", "call torch.hpu."))] == [
        "read torch.hpu.current_device",
        "call torch.hpu.current_device",
    ]


def test_a_line_is_written_once_a_process(recorded: Callable[[str], list[str]]) -> None:
    lines = recorded("for _ in range(3): torch.hpu.device_count()")
    assert len(lines) == len(set(lines))


def test_nothing_is_watched_without_the_variable(run: Run) -> None:
    program = "print(type(torch.hpu).__name__, hasattr(torch.hpu.device_count, '__wrapped__'))"
    assert run(program, NORTHBRIDGE_CPU_SIM_RECORD="") == "module False\n"
