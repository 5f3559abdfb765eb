"""Models and tensors that are spread over ranks by simccl: FSDP2, DTensor, tensor parallel, distributed checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Ranks = Callable[..., list[str]]

PROGRAMS = Path(__file__).with_name("sharded_rank_programs.py")


@pytest.mark.parametrize(
    ("program", "size"),
    [
        ("fsdp", 2),
        ("fsdp", 4),
        ("fsdp_mixed", 2),
        ("fsdp_offload", 2),
        ("fsdp_meta", 2),
        ("dtensors", 2),
        ("dtensors", 4),
        ("random_dtensors", 2),
        ("tensor_parallel", 2),
        ("tensor_parallel", 4),
        ("sequence_parallel", 2),
        ("two_dimensions", 4),
    ],
)
def test_ranks_compute_what_one_process_computes(on_ranks: Ranks, program: str, size: int) -> None:
    on_ranks(program, size, programs=PROGRAMS)


@pytest.mark.parametrize(("written", "read"), [(4, 2), (2, 4)])
def test_another_number_of_ranks_reads_a_checkpoint(on_ranks: Ranks, tmp_path: Path, written: int, read: int) -> None:
    folder = {"FOLDER": str(tmp_path)}

    on_ranks("save", written, environ=folder, programs=PROGRAMS)
    on_ranks("read", read, environ=folder, programs=PROGRAMS)
