"""Memory of the chip: what is charged to a device, and what happens when none is left."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType

import pytest
import torch

SMALL = {"NORTHBRIDGE_CPU_SIM_MEMORY": "64MiB", "NORTHBRIDGE_CPU_SIM_DEVICES": "2"}


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x + 1,
        lambda x: torch.nn.functional.softmax(x, 0),
        lambda x: torch.sort(x)[0],
        lambda x: torch.cumsum(x, 0),
        lambda x: torch.ops.aten._foreach_exp([x])[0],
        lambda x: torch.nn.functional.conv1d(x.view(1, 1, -1), torch.ones(1, 1, 1, device=x.device)),
    ],
    ids=["elementwise", "softmax", "sort", "cumsum", "foreach", "convolution"],
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


def test_free_and_used_memory_are_the_total(chip: ModuleType) -> None:
    tensor = torch.ones(1024, device="cpu_sim:5")

    free, total = chip.mem_get_info(5)

    assert total == 16 * 2**30
    assert total - free == chip.memory_allocated(tensor.device)


def test_statistics_have_cudas_names(chip: ModuleType) -> None:
    tensor = torch.ones(1024, device="cpu_sim:5")

    stats = chip.memory_stats(5)

    assert stats["allocated_bytes.all.current"] == chip.memory_allocated(tensor.device)
    assert stats["reserved_bytes.all.current"] == chip.memory_reserved(5)
    assert stats == torch.accelerator.memory_stats(5)
    chip.empty_cache()
    assert chip.memory_stats(5) == stats


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


def test_too_large_cpu_result_is_refused(in_fork: Callable[..., str]) -> None:
    said = in_fork(
        """
        x = torch.ones(40 * 2**18, device="cpu_sim")  # 40 MiB of 64
        before = torch.cpu_sim.memory_allocated()
        for compute in (lambda: x + 1, lambda: torch.cumsum(x, 0), lambda: torch.ops.aten._foreach_neg([x])):
            try:
                compute()
            except torch.OutOfMemoryError as error:
                print(error)
            assert torch.cpu_sim.memory_allocated() == before
        print((x[:4] + 1).tolist(), torch.ones(40 * 2**18, device="cpu_sim:1").sum().item())
        """,
        **SMALL,
    )

    *refusals, after = said.splitlines()
    assert len(refusals) == 3
    assert all("40.00 MiB were asked for, 40.00 MiB of its 64.00 MiB are in use" in r for r in refusals)
    assert after == "[2.0, 2.0, 2.0, 2.0] 10485760.0"


def test_an_out_argument_that_cannot_grow_stays_as_it_was(in_fork: Callable[..., str]) -> None:
    said = in_fork(
        """
        x = torch.ones(40 * 2**18, device="cpu_sim")
        out = torch.arange(4.0, device="cpu_sim")
        before = torch.cpu_sim.memory_allocated()
        try:
            torch.add(x, 1, out=out.resize_(0).resize_(4)[:0])
        except torch.OutOfMemoryError as error:
            print("refused")
        assert torch.cpu_sim.memory_allocated() == before, torch.cpu_sim.memory_allocated()
        del x
        print(torch.cpu_sim.memory_allocated(), out.add_(1).shape)
        """,
        **SMALL,
    )

    assert said.splitlines() == ["refused", "16 torch.Size([4])"]


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


def test_a_summary_is_a_table_of_the_statistics(chip: ModuleType) -> None:
    keep = torch.empty(3 * 2**20, dtype=torch.uint8, device="cpu_sim:6")

    lines = chip.memory_summary(6).splitlines()

    assert lines[0].startswith("cpu_sim:6 memory summary, out of memory ")
    assert [part.strip() for part in lines[1].split("|")] == [
        "Metric", "Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed",
    ]  # fmt: skip
    figures = {line.split("|")[0].strip(): line.split("|")[1].strip() for line in lines[2:]}
    in_use = chip.memory_allocated(keep.device)
    assert figures["Allocated memory"] == figures["Reserved memory"] == f"{in_use // 1024} KiB"
    assert figures["Allocations"] == str(chip.memory_stats(6)["allocation.all.current"])


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
