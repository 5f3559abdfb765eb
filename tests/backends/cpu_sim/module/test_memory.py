"""Memory of the chip: what is charged to a device, what happens when none is left, and strict memory."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tests.backends.cpu_sim.conftest import Ranks

SMALL = {"NORTHBRIDGE_CPU_SIM_MEMORY": "64MiB", "NORTHBRIDGE_CPU_SIM_DEVICES": "2"}


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x + 1,
        lambda x: torch.sort(x)[0],
        lambda x: torch.ops.aten._foreach_exp([x])[0],
        lambda x: torch.nn.functional.conv1d(x.view(1, 1, -1), torch.ones(1, 1, 1, device=x.device)),
    ],
    ids=["elementwise", "sort", "foreach", "convolution"],
)
def test_a_cpu_kernels_result_is_charged(chip: ModuleType, compute: Callable[[torch.Tensor], torch.Tensor]) -> None:
    tensor = torch.ones(1024, device="cpu_sim:3")
    before = chip.memory_allocated(3)

    result = compute(tensor)

    assert chip.memory_allocated(3) - before == result.untyped_storage().nbytes() == 4096
    del result
    assert chip.memory_allocated(3) == before


def test_an_out_argument_that_grows_is_charged_its_new_size(chip: ModuleType) -> None:
    tensor = torch.ones(1024, device="cpu_sim:3")
    out = torch.empty(0, device="cpu_sim:3")
    before = chip.memory_allocated(3)

    torch.add(tensor, 1, out=out)

    assert chip.memory_allocated(3) - before == 4096
    assert torch.equal(out.cpu(), torch.full((1024,), 2.0))
    del out
    assert chip.memory_allocated(3) == before


def test_resizing_a_storage_moves_its_charge_and_its_contents(chip: ModuleType) -> None:
    before = chip.memory_allocated(3)
    tensor = torch.arange(4.0, device="cpu_sim:3")

    tensor.resize_(1024)
    assert chip.memory_allocated(3) - before == 4096
    assert tensor[:4].tolist() == [0.0, 1.0, 2.0, 3.0]

    tensor.untyped_storage().resize_(0)
    assert chip.memory_allocated(3) == before


def test_statistics_have_cudas_names(chip: ModuleType) -> None:
    tensor = torch.ones(2**18, device="cpu_sim:5")
    stats, in_use = chip.memory_stats(5), chip.memory_allocated(tensor.device)
    assert stats["allocated_bytes.all.current"] == stats["reserved_bytes.all.current"] == in_use
    assert stats == torch.accelerator.memory_stats(5)
    assert chip.mem_get_info(5) == (16 * 2**30 - in_use, 16 * 2**30)

    lines = chip.memory_summary(5).splitlines()
    assert lines[0].startswith("cpu_sim:5 memory summary, out of memory ")
    rows = [[part.strip() for part in line.split("|")] for line in lines[1:]]
    assert rows[0] == ["Metric", "Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed"]
    figures = {row[0]: row[1] for row in rows}
    assert figures["Allocated memory"] == figures["Reserved memory"] == f"{in_use // 1024} KiB"
    assert figures["Allocations"] == str(stats["allocation.all.current"])


def test_too_large_tensor_is_refused_with_figures(chip: ModuleType) -> None:
    keep = torch.empty(2**20, dtype=torch.uint8, device="cpu_sim:6")
    before = chip.memory_allocated(6)
    refused = chip.memory_stats(6)["num_ooms"]

    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.empty(17 * 2**30, dtype=torch.uint8, device=keep.device)

    assert re.search(
        r"cpu_sim:6 is out of memory: 17\.00 GiB were asked for, 1\.00 MiB of its 16\.00 GiB are in use\. .*"
        r"give the simulated chip more memory \(NORTHBRIDGE_CPU_SIM_MEMORY\)",
        str(caught.value),
    )
    assert chip.memory_allocated(6) == before
    assert chip.memory_stats(6)["num_ooms"] == refused + 1


@pytest.mark.parametrize("freed", ["any", "trap"])
def test_where_the_host_has_too_little_nothing_has_changed(in_fork: Callable[..., str], freed: str) -> None:
    said = in_fork(
        """
        x = torch.ones(3, device="cpu_sim")
        def refused(call):
            try:
                call()
            except torch.OutOfMemoryError as error:
                print(error)
            print(tuple(x.shape), x.stride(), x.untyped_storage().nbytes(), torch.cpu_sim.memory_allocated())
        refused(lambda: torch.empty(2**47, device="cpu_sim"))
        refused(lambda: x.resize_(2**47))
        refused(lambda: x.set_(x.untyped_storage(), 0, (2**47,), (1,)))
        refused(lambda: x.untyped_storage().resize_(2**49))
        refused(lambda: torch.add(x[:1].expand(2**47), 1))
        print(x.tolist())
        """,
        NORTHBRIDGE_CPU_SIM_MEMORY="1PiB",
        NORTHBRIDGE_CPU_SIM_FREED=freed,
        NORTHBRIDGE_CPU_SIM_FRESH="any",
    )

    *refusals, after = said.splitlines()
    assert refusals[1::2] == ["(3,) (1,) 12 12"] * 5
    blocks = refusals[:8:2]
    assert all("the host has no 562949953421312 bytes left for a block of cpu_sim" in each for each in blocks)
    assert "the host has no memory left for a result on cpu_sim" in refusals[8]
    assert all("so free some there, or ask for less" in each for each in refusals[::2])
    assert after == "[1.0, 1.0, 1.0]"


NEARLY_FULL = """
import gc
MEBI = 2**18  # float32s in 1 MiB

def ones(mebibytes, **options):
    return torch.ones(mebibytes * MEBI, device="cpu_sim", **options)

def shape(tensor):
    return tensor.shape, tensor.stride(), tensor.untyped_storage().nbytes()

def refused(call, *given):
    gc.collect()
    before, shapes = torch.cpu_sim.memory_allocated(), [shape(tensor) for tensor in given]
    try:
        call(*given)
    except torch.OutOfMemoryError:
        pass
    else:
        raise AssertionError("it did not run out of memory")
    for tensor in given:
        tensor.grad = None
    gc.collect()
    assert torch.cpu_sim.memory_allocated() == before, (before, torch.cpu_sim.memory_allocated())
    assert [shape(tensor) for tensor in given] == shapes, [shape(tensor) for tensor in given]
    print("refused", flush=True)
"""


def test_what_runs_out_of_memory_leaves_in_use_what_was_in_use(in_fork: Callable[..., str]) -> None:
    said = in_fork(
        NEARLY_FULL
        + """
from torch.utils.checkpoint import checkpoint
x = ones(20)
refused(torch.sort, x)  # the first of its results fits
refused(lambda *several: torch._foreach_add(several, 1), *x.chunk(4), ones(20))
refused(lambda x: x.expand(4, -1).contiguous(), x)
refused(lambda x: x.double() + 1, x)
refused(lambda *outs: torch.sort(x, out=outs), torch.empty(0, device="cpu_sim"),
        torch.empty(4, device="cpu_sim", dtype=torch.long)[:0])
refused(lambda out: torch.cat([x, x, x], out=out), torch.empty(0, device="cpu_sim"))
refused(lambda x: x.resize_(60 * MEBI), x)
refused(lambda x: x.untyped_storage().resize_(60 * 2**20), x)
refused(lambda: torch.ones(45 * MEBI).to("cpu_sim"))
refused(lambda: torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(4)]).to("cpu_sim"))
refused(lambda x: torch.nn.functional.dropout(x.expand(3, -1)), x)
del x
refused(lambda x: (x.exp() * x.sin()).sum().backward(), ones(14, requires_grad=True))
refused(lambda x: checkpoint(lambda y: y.exp().sin().cos(), x, use_reentrant=False).sum().backward(),
        ones(14, requires_grad=True))
refused(lambda x: torch.optim.AdamW([x.requires_grad_()], fused=True).step(setattr(x, "grad", x.detach().clone())),
        ones(17))
print(torch.cpu_sim.memory_allocated(), (ones(20) + 1).sum().item() == 40 * MEBI)
""",
        **SMALL,
    )

    *refusals, after = said.splitlines()
    assert refusals == ["refused"] * 14
    assert after == "0 True"


def test_pinned_memory_is_the_cpus_and_known_as_pinned(chip: ModuleType) -> None:
    plain = torch.arange(8.0)

    pinned = plain.pin_memory()

    assert not plain.is_pinned()
    assert pinned.is_pinned()
    assert pinned[2:].is_pinned()
    assert pinned.device.type == "cpu"
    assert torch.equal(pinned.to("cpu_sim", non_blocking=True).cpu(), plain)
    assert torch.empty(3, pin_memory=True).is_pinned()


def test_memory_of_the_device_cannot_be_pinned(chip: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="only memory of the CPU can be pinned"):
        torch.empty(3, device="cpu_sim", pin_memory=True)


# --- Fresh memory that is never zero by luck, and freed memory that nobody touches unseen

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


def test_fresh_memory_is_nan(chip: ModuleType) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.complex64):
        assert torch.empty(100, dtype=dtype, device=HERE).isnan().all().item()
        assert torch.empty(0, device=HERE).new_empty(2, 3, dtype=dtype).isnan().all().item()
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
