"""Models and tensors that a chip spreads over its ranks: FSDP2, DTensor, tensor parallel, checkpoints of those."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.backends.simulation.processes import OnRanks

PROGRAMS = Path(__file__).parents[1] / "sharded_rank_programs.py"


class TestSharding:
    @pytest.mark.parametrize("size", [2, 4])
    def test_ranks_train_what_one_process_trains(self, on_ranks: OnRanks, mode: dict[str, str], size: int) -> None:
        on_ranks(_the("fsdp", "dtensors", "tensor_parallel"), size, first="", **mode)

    def test_checkpoint_of_four_ranks_is_read_by_two(self, on_ranks: OnRanks, tmp_path: Path) -> None:
        on_ranks(_the("save"), 4, first="", FOLDER=str(tmp_path))
        on_ranks(_the("read"), 2, first="", FOLDER=str(tmp_path))


def _the(*functions: str) -> str:
    """A program that does these of the functions that every chip's ranks do."""
    arguments = [str(PROGRAMS), *functions]
    return f"import runpy, sys\nsys.argv = {arguments}\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
