"""HCCL between ranks: what is exact and what is refused, and few reductions, few dtypes and a farewell underneath."""

from __future__ import annotations

import json

import pytest
from tests.backends.simulation.processes import OnRanks, Run

LIBRARY = """
import json, northbridge
from datetime import timedelta
rank, Op = dist.get_rank(), dist.ReduceOp

def tried(act):
    try:
        return act()
    except (RuntimeError, northbridge.CollectiveError) as error:
        return str(error).splitlines()[0]

collective = northbridge.get("hpu").collective
def whole_mean(value, dtype):
    return collective.all_reduce(torch.tensor([value], dtype=dtype, device="hpu"), "mean").item()

def reduced(value, dtype=torch.float32, device="hpu", **options):
    tensor = torch.tensor([value], dtype=dtype, device=device)
    dist.all_reduce(tensor, **options)
    return tensor.item()

whole = torch.ones(2, dtype=torch.int64, device="hpu")
old = dist.new_group([0, 1], timeout=timedelta(seconds=60), backend="hccl")
dist.barrier(group=old)
other = dist.new_group([0, 1], backend="gloo")
default_device = dist.distributed_c10d._get_pg_default_device
print(json.dumps({
    "computed": [reduced(1.0 + rank, op=op) for op in (Op.SUM, Op.MIN, Op.MAX)],
    "refused": [tried(lambda: reduced(1.0, op=op)) for op in (Op.PRODUCT, Op.AVG)],
    # Whole numbers above 2^24 are not numbers of float32.
    "rounded": [reduced(2**24 + rank, each) for each in (torch.int32, torch.int64, torch.float64)],
    "scattered": [
        tried(lambda: dist.reduce_scatter_tensor(whole[:1].clone(), whole)),
        tried(lambda: dist.reduce_scatter(whole[:1].clone(), list(whole.split(1)))),
    ],
    "from any rank": tried(lambda: dist.recv(torch.zeros(1, device="hpu")) if rank else None),
    "old parameters": [reduced(1.0, group=old), dist.get_backend(old), str(default_device(old))],
    # What Northbridge makes of it: exact, or refused with what to do.
    "exact": [whole_mean(2**24 + 1 + 2 * rank, torch.int64), whole_mean(1.0 + rank, torch.float16)],
    "product": tried(lambda: collective.all_reduce(torch.ones(1, device="hpu"), "product")),
    "another library": [reduced(2**40, torch.int64, "cpu", group=other), str(default_device(other))],
}))
"""


@pytest.mark.shows(
    "hccl reduces by sum, minimum and maximum",
    "hccl reduces float32 and bfloat16 natively",
    "hccl refuses int64 in reduce_scatter_tensor",
    "hccl refuses other dtypes in reduce_scatter",
    "hccl lacks recv from any source and coalesced all_gather",
)
def test_the_library_rounds_and_refuses(on_ranks: OnRanks) -> None:
    first, second = (json.loads(each.splitlines()[-1]) for each in on_ranks(LIBRARY))

    assert first == {**second, "from any rank": None}
    assert second.pop("from any rank").startswith("recvAnysource")
    assert second == {
        "computed": [3.0, 1.0, 2.0],
        "refused": ["Collective call returned error", "Unsupported ReduceOp for HCCL process group"],
        "rounded": [2**25] * 3,
        "scattered": ["Collective call returned error"] * 2,
        "old parameters": [2.0, "hccl", "hpu"],
        "exact": [2**24 + 2, 1.5],
        "product": (
            "'hccl' cannot reduce by 'product': HCCL has only sum, min and max; reduce the logarithms by 'sum', or"
            " all_gather and multiply"
        ),
        "another library": [2**41, "cpu"],
    }


def test_parameters_of_newer_releases_are_refused(run: Run) -> None:
    program = """
    import torch.distributed as dist
    for call in (
        lambda: dist.init_process_group("hccl", device_id=torch.device("hpu", 0)),
        lambda: dist.init_process_group(),
        lambda: dist.new_group([0], group_desc="first"),
        lambda: dist.new_group([0], use_local_synchronization=True),
    ):
        try:
            call()
        except TypeError as error:
            print("argument" in str(error))
    """
    assert run(program, NORTHBRIDGE_HPU_SIM_RELEASE="1.19") == 4 * "True\n"


@pytest.mark.parametrize(("release", "bound"), [("1.19", "TypeError"), ("1.22", "None")])
def test_lightnings_own_cpu_run_makes_its_group(run: Run, release: str, bound: str) -> None:
    """Lightning passes device_id=None there, which 1.19 does not have; 1.22 drops it, and a device too."""
    said = run(
        """
        import torch.distributed as dist
        from lightning.fabric import Fabric
        fabric = Fabric(accelerator="cpu", devices=1, strategy="ddp")
        fabric.launch()
        print(dist.get_backend(), fabric.all_reduce(torch.ones(1)).item())
        dist.destroy_process_group()
        store = dist.HashStore()
        try:
            dist.init_process_group("gloo", rank=0, world_size=1, store=store, device_id=torch.device("hpu", 0))
            print(dist.group.WORLD.bound_device_id)
        except TypeError as error:
            print(type(error).__name__)
        """,
        NORTHBRIDGE_HPU_SIM_RELEASE=release,
    )
    assert said.endswith(f"gloo 1.0\n{bound}\n")


@pytest.mark.shows("hccl waits for all ranks at the end")
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
