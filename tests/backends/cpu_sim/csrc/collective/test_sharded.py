"""Models and tensors that are spread over ranks by simccl: FSDP2, DTensor, tensor parallel, distributed checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Ranks = Callable[..., list[str]]

PROGRAMS = Path(__file__).parents[3] / "sharded_rank_programs.py"


@pytest.mark.parametrize("size", [2, 4])
def test_fsdp2_trains_what_one_process_trains(on_ranks: Ranks, size: int) -> None:
    on_ranks("fsdp", size, programs=PROGRAMS)


def test_fsdp2_mixed_precision_keeps_float32(on_ranks: Ranks) -> None:
    on_ranks("fsdp_mixed", programs=PROGRAMS)


def test_fsdp2_cpu_offload_trains_as_one_process(on_ranks: Ranks) -> None:
    on_ranks("fsdp_offload", programs=PROGRAMS)


def test_meta_device_model_is_sharded_then_filled(on_ranks: Ranks) -> None:
    on_ranks("fsdp_meta", programs=PROGRAMS)


@pytest.mark.parametrize("size", [2, 4])
def test_a_dtensor_is_spread_moved_and_put_together(on_ranks: Ranks, size: int) -> None:
    on_ranks("dtensors", size, programs=PROGRAMS)


def test_random_dtensors_differ_between_shards_only(on_ranks: Ranks) -> None:
    on_ranks("random_dtensors", programs=PROGRAMS)


@pytest.mark.parametrize("size", [2, 4])
def test_tensor_parallel_trains_what_one_process_trains(on_ranks: Ranks, size: int) -> None:
    on_ranks("tensor_parallel", size, programs=PROGRAMS)


def test_sequence_parallel_gives_what_one_process_gives(on_ranks: Ranks) -> None:
    on_ranks("sequence_parallel", programs=PROGRAMS)


def test_tensor_parallel_in_fsdp2_trains_as_one_process(on_ranks: Ranks) -> None:
    on_ranks("two_dimensions", 4, programs=PROGRAMS)


@pytest.mark.parametrize(("written", "read"), [(4, 2), (2, 4)])
def test_another_number_of_ranks_reads_a_checkpoint(on_ranks: Ranks, tmp_path: Path, written: int, read: int) -> None:
    folder = {"FOLDER": str(tmp_path)}

    on_ranks("save", written, environ=folder, programs=PROGRAMS)
    on_ranks("read", read, environ=folder, programs=PROGRAMS)
