"""Fresh memory that is never zero by luck, and freed memory that nobody touches unseen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tests.backends.cpu_sim.conftest import Ranks

HERE = "cpu_sim:0"

TOUCH = """
import ctypes, sys
import northbridge
northbridge.load("cpu_sim")
import torch
tensor = torch.ones(1000, device="cpu_sim")
tensor = tensor + 1 if sys.argv[1] == "computed" else tensor
address = tensor.data_ptr()
read = ctypes.cast(address, ctypes.POINTER(ctypes.c_float))
print("held", read[10], flush=True)
del tensor
print("freed", read[10], flush=True)
"""


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "complex64"])
def test_fresh_memory_is_nan(chip: ModuleType, dtype: str) -> None:
    assert torch.empty(100, dtype=getattr(torch, dtype), device=HERE).isnan().all().item()
    assert torch.empty(0, device=HERE).new_empty(2, 3, dtype=getattr(torch, dtype)).isnan().all().item()


def test_fresh_whole_numbers_are_not_zero(chip: ModuleType) -> None:
    assert torch.empty(100, dtype=torch.int64, device=HERE).tolist() == [-1] * 100


def test_memory_that_a_resize_has_added_is_nan(chip: ModuleType) -> None:
    tensor = torch.ones(2, device=HERE)

    tensor.resize_(1000)

    assert tensor[:2].tolist() == [1, 1]
    assert tensor[2:].isnan().all().item()


def test_fresh_memory_is_the_hosts_where_nothing_was_asked(in_fork: Callable[..., str]) -> None:
    program = """
    tensor = torch.empty(100, device="cpu_sim")
    print(tensor.isnan().all().item())
    """

    assert in_fork(program, NORTHBRIDGE_CPU_SIM_FRESH="any").strip() == "False"


@pytest.mark.parametrize(("tensor", "value"), [("allocated", 1.0), ("computed", 2.0)])
def test_who_reads_freed_memory_is_told_so_and_ends(
    start_ranks: Callable[..., Ranks], tmp_path: Path, tensor: str, value: float
) -> None:
    script = tmp_path / "touch.py"
    script.write_text(TOUCH)

    alone = start_ranks(tensor, 1, {"NORTHBRIDGE_CPU_SIM_FREED": "trap"}, script)

    said = alone.said(0)
    assert alone.status(0) < 0, said
    assert said.startswith(f"held {value}\n")
    assert "freed " not in said.partition("memory of the simulated chip")[0]
    assert (
        "memory of the simulated chip was touched after it was freed: byte 40 of a block of 4000. Code that keeps its"
        " address has to keep the tensor."
    ) in said


def test_training_is_the_same_where_freed_memory_is_trapped(in_fork: Callable[..., str]) -> None:
    program = """
    from torch import nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)).to("cpu_sim")
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(5, 1, 8, 8)
    for _ in range(3):
        optimizer.zero_grad()
        model(batch.to("cpu_sim", non_blocking=True)).square().mean().backward()
        optimizer.step()
    torch.cpu_sim.synchronize()
    print([parameter.sum().item() for parameter in model.parameters()], torch.cpu_sim.memory_allocated())
    """

    trapped = in_fork(program, NORTHBRIDGE_CPU_SIM_FREED="trap")

    assert trapped == in_fork(program, NORTHBRIDGE_CPU_SIM_FREED="any")


def test_pending_work_keeps_memory_after_a_resize(in_fork: Callable[..., str]) -> None:
    program = """
    import torch.distributed as dist
    dist.init_process_group("simccl", store=dist.HashStore(), rank=0, world_size=1)
    reduced = torch.ones(1000, device="cpu_sim")
    work = dist.all_reduce(reduced, async_op=True)
    reduced.untyped_storage().resize_(0)
    work.wait()
    copied = torch.ones(1000, device="cpu_sim:1").to("cpu_sim:0", non_blocking=True)
    with torch.Stream("cpu_sim:0"):
        copied.untyped_storage().resize_(0)
    torch.cpu_sim.synchronize()
    del work
    print(torch.cpu_sim.memory_allocated())
    """

    assert in_fork(program, NORTHBRIDGE_CPU_SIM_FREED="trap").strip() == "0"


def test_result_resized_before_a_failure_has_memory(in_fork: Callable[..., str]) -> None:
    program = """
    import warnings
    warnings.simplefilter("ignore")  # torch warns where it resizes a result
    out = torch.ones(2, device="cpu_sim")
    try:
        torch.index_select(torch.ones(4, 5, device="cpu_sim"), 0, torch.tensor([9], device="cpu_sim"), out=out)
    except IndexError as error:
        print(error)
    print(tuple(out.shape), out.fill_(1).sum().item())
    """

    said = in_fork(program, NORTHBRIDGE_CPU_SIM_FREED="trap")

    assert said.splitlines() == ["index out of range in self", "(1, 5) 5.0"]


def test_a_copy_whose_memory_was_freed_before_it_ran_is_an_error(in_fork: Callable[..., str]) -> None:
    program = """
    tensor = torch.ones(2, 3, device="cpu_sim")
    side = torch.Stream("cpu_sim:0")
    with side:
        tensor.to("cpu", non_blocking=True)
    del tensor
    try:
        side.synchronize()
    except RuntimeError as error:
        print(error)
    """

    said = in_fork(program, NORTHBRIDGE_CPU_SIM_FREED="trap")

    assert "a non-blocking copy of [2, 3] Float on a stream of cpu_sim:0 had not begun when its memory" in said
    assert "call record_stream() on the tensor, or wait for the copy before it goes" in said
