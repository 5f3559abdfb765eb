"""HCCL: few reductions, few dtypes, old signatures, and a farewell."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.backends.simulation.processes import OnRanks

TRY = """
import torch.distributed as dist
try:
    {statement}
except {error} as error:
    print("refused:", str(error).splitlines()[0])
"""


def tried(statement: str, error: str = "RuntimeError") -> str:
    return TRY.format(statement=statement, error=error)


@pytest.mark.shows("hccl reduces by sum, minimum and maximum")
@pytest.mark.parametrize(
    ("op", "sentence"),
    [("PRODUCT", "Collective call returned error"), ("AVG", "Unsupported ReduceOp for HCCL process group")],
)
def test_product_and_average_are_refused(on_ranks: OnRanks, op: str, sentence: str) -> None:
    said = on_ranks(tried(f"dist.all_reduce(torch.ones(2, device='hpu'), op=dist.ReduceOp.{op})"))
    assert said == 2 * [f"refused: {sentence}\n"]


def test_sum_minimum_and_maximum_are_computed(on_ranks: OnRanks) -> None:
    said = on_ranks(
        """
        for op in dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX:
            value = torch.tensor([1.0 + dist.get_rank()], device="hpu")
            dist.all_reduce(value, op=op)
            print(value.item(), end=" ")
        """
    )
    assert said == 2 * ["3.0 1.0 2.0 "]


@pytest.mark.shows("hccl reduces float32 and bfloat16 natively")
@pytest.mark.parametrize("dtype", ["int32", "int64", "float64"])
def test_other_dtypes_lose_digits_on_the_way(on_ranks: OnRanks, dtype: str) -> None:
    said = on_ranks(
        f"""
        value = torch.tensor([2**24 + dist.get_rank()], dtype=torch.{dtype}, device="hpu")
        dist.all_reduce(value)
        print(int(value.item()), value.dtype)
        """
    )
    assert 2 * (2**24) + 1 != 2**25
    assert said == 2 * [f"{2**25} torch.{dtype}\n"]


@pytest.mark.shows("hccl refuses int64 in reduce_scatter_tensor", "hccl refuses other dtypes in reduce_scatter")
@pytest.mark.parametrize(
    "call",
    [
        "dist.reduce_scatter_tensor(torch.zeros(1, dtype=torch.int64, device='hpu'), whole)",
        "dist.reduce_scatter(torch.zeros(1, dtype=torch.int64, device='hpu'), list(whole.split(1)))",
    ],
)
def test_int64_cannot_be_scattered(on_ranks: OnRanks, call: str) -> None:
    said = on_ranks("whole = torch.ones(2, dtype=torch.int64, device='hpu')\n" + tried(call))
    assert said == 2 * ["refused: Collective call returned error\n"]


@pytest.mark.shows("hccl lacks recv from any source and coalesced all_gather")
def test_there_is_no_receiving_from_any_source(on_ranks: OnRanks) -> None:
    said = on_ranks(tried("dist.recv(torch.zeros(1, device='hpu')) if dist.get_rank() else None"))
    assert said[1].startswith("refused: recvAnysource")


@pytest.mark.parametrize(
    "call",
    [
        "dist.init_process_group('hccl', device_id=torch.device('hpu', 0))",
        "dist.init_process_group()",
        "dist.new_group([0], group_desc='first')",
        "dist.new_group([0], use_local_synchronization=True)",
    ],
)
def test_parameters_of_newer_releases_are_refused(run: Callable[..., str], call: str) -> None:
    said = run(tried(call, "TypeError"), NORTHBRIDGE_HPU_SIM_RELEASE="1.19")
    assert said.startswith("refused:")
    assert "argument" in said


@pytest.mark.parametrize("release", ["1.19", "1.22"])
def test_lightnings_own_cpu_run_makes_its_group(run: Callable[..., str], release: str) -> None:
    """Lightning passes device_id=None there, which 1.19 does not have; 1.22 drops it."""
    said = run(
        """
        from lightning.fabric import Fabric
        fabric = Fabric(accelerator="cpu", devices=1, strategy="ddp")
        fabric.launch()
        print(torch.distributed.get_backend(), fabric.all_reduce(torch.ones(1)).item())
        torch.distributed.destroy_process_group()
        """,
        NORTHBRIDGE_HPU_SIM_RELEASE=release,
    )
    assert said.endswith("gloo 1.0\n")


def test_a_device_is_dropped_by_newer_releases(run: Callable[..., str]) -> None:
    said = run(
        """
        import torch.distributed as dist
        dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore(), device_id=torch.device("hpu", 0))
        print(dist.group.WORLD.bound_device_id)
        """
    )
    assert said == "None\n"


def test_groups_are_made_with_the_old_parameters(on_ranks: OnRanks) -> None:
    said = on_ranks(
        """
        from datetime import timedelta
        group = dist.new_group([0, 1], timeout=timedelta(seconds=60), backend="hccl")
        value = torch.ones(1, device="hpu")
        dist.all_reduce(value, group=group)
        dist.barrier(group=group)
        print(value.item(), dist.get_backend(group), dist.distributed_c10d._get_pg_default_device(group))
        """
    )
    assert said == 2 * ["2.0 hccl hpu\n"]


@pytest.mark.shows("hccl waits for all ranks at the end")
def test_the_first_rank_waits_for_the_others_at_the_end(on_ranks: OnRanks) -> None:
    said = on_ranks(
        """
        import time
        if dist.get_rank():
            time.sleep(2)
        begin = time.monotonic()
        dist.destroy_process_group()
        print(time.monotonic() - begin > 0.5)
        """
    )
    assert said == ["True\n", "False\n"]


def test_the_first_rank_waits_for_ever_where_another_has_died(on_ranks: OnRanks) -> None:
    said = on_ranks(
        """
        import os, signal
        dist.barrier()
        if dist.get_rank():
            os._exit(0)
        signal.signal(signal.SIGALRM, lambda *_: (print("waits still", flush=True), os._exit(0)))
        signal.alarm(3)
        dist.destroy_process_group()
        print("did not wait")
        """
    )
    assert said == ["waits still\n", ""]


def test_a_group_of_another_library_says_no_farewell(on_ranks: OnRanks) -> None:
    said = on_ranks(
        """
        group = dist.new_group([0, 1], backend="gloo")
        value = torch.tensor([2**40])
        dist.all_reduce(value, group=group)
        print(value.item(), dist.distributed_c10d._get_pg_default_device(group))
        """
    )
    assert said == 2 * [f"{2**41} cpu\n"]
