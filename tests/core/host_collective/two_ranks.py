"""Two ranks on the simulated chip that speak through the host: ``python two_ranks.py FOLDER`` writes what each found.

Every call is made by its name in torch, on numbers that differ between the ranks.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import northbridge

FOUND: dict[str, Any] = {}


def attempt(name: str, call: Callable[[], Any]) -> None:
    """Keep what ``call`` returns, or its error."""
    try:
        found = call()
    except Exception as error:  # noqa: BLE001 - the tests read it
        kinds = [kind.__name__ for kind in type(error).__mro__]
        found = {"kinds": kinds, "said": str(error), "timed out": getattr(error, "timed_out", None)}
        found["trace"] = traceback.format_exc()
    FOUND[name] = found


def on_chip(values: Any, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(values, dtype=dtype, device=DEVICE)


def told(*tensors: Tensor) -> Any:
    """Return the numbers of ``tensors``, which must be on the chip."""
    assert all(each.device == DEVICE for each in tensors)
    lists = [each.float().tolist() for each in tensors]
    return lists if len(lists) > 1 else lists[0]


def reduced(dtype: torch.dtype) -> Any:
    tensor = on_chip([1, 2 + RANK]).to(dtype)
    dist.all_reduce(tensor)
    return told(tensor)


def broadcast(dtype: torch.dtype) -> Any:
    tensor = on_chip([RANK + 1, 2]).to(dtype)
    dist.broadcast(tensor, 1)
    return told(tensor)


def reduced_to_one() -> Any:
    tensor = on_chip([RANK + 1.0])
    dist.reduce(tensor, 1)
    return told(tensor)


def gathered(dtype: torch.dtype) -> Any:
    outputs = [on_chip([0, 0]).to(dtype) for _ in range(2)]
    dist.all_gather(outputs, on_chip([RANK, 5]).to(dtype))
    return told(*outputs)


def gathered_into_slice() -> Any:
    whole = on_chip([-1.0] * 6)
    dist.all_gather_single(whole[1:5], on_chip([[RANK, 8.0], [7.0, 9.0]])[0])
    return told(whole)


def scattered_sums(call: str) -> Any:
    output, given = on_chip([0.0, 0.0]), on_chip([[1.0, 2.0], [3.0, 4.0]]) * (RANK + 1)
    if call == "list":
        dist.reduce_scatter(output, list(given))
    else:
        dist.reduce_scatter_single(output, given.view(-1))
    return told(output)


def gathered_by_one() -> Any:
    outputs = [on_chip([0.0]) for _ in range(2)] if RANK == 1 else None
    dist.gather(on_chip([RANK + 3.0]), outputs, dst=1)
    return told(*outputs) if outputs else None


def scattered() -> Any:
    output = on_chip([0.0])
    dist.scatter(output, [on_chip([5.0]), on_chip([6.0])] if RANK == 0 else None, src=0)
    return told(output)


def all_to_all_uneven(dtype: torch.dtype) -> Any:
    given = torch.arange(3, device=DEVICE).to(dtype) + 10 * RANK
    output = torch.empty([4, 2][RANK], device=DEVICE, dtype=dtype)
    dist.all_to_all_single(output, given, [[2, 2], [1, 1]][RANK], [2, 1])
    return told(output)


def all_to_all() -> Any:
    outputs = [on_chip([0.0]), on_chip([0.0])]
    dist.all_to_all(outputs, [on_chip([10.0 * RANK]), on_chip([10.0 * RANK + 1])])
    return told(*outputs)


def received_from_any() -> Any:
    if RANK == 1:
        dist.send(on_chip([5.0, 6.0]), 0)
        return None
    tensor = on_chip([0.0, 0.0])
    return [dist.recv(tensor), told(tensor)]


def sent_around() -> Any:
    tensor = on_chip([0.0])
    operations = [
        dist.P2POp(dist.isend, on_chip([RANK + 1.0]), 1 - RANK),
        dist.P2POp(dist.irecv, tensor, 1 - RANK),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return told(tensor)


def made_together() -> Any:
    first, second = on_chip([RANK + 1.0]), on_chip([3.0])
    with dist._coalescing_manager(device=DEVICE):  # type: ignore[attr-defined]  # torch's, for DeepSpeed
        dist.all_reduce(first)
        dist.all_reduce(second)
    return told(first, second)


def with_a_future() -> Any:
    tensor = on_chip([RANK + 1.0])
    work: Any = dist.all_reduce(tensor, async_op=True)
    (arrived,) = work.get_future().wait()
    return [told(tensor), told(arrived), work.is_completed(), work.is_success()]


def polled() -> Any:
    """Read without a wait, once the call says that it has ended."""
    tensor = on_chip([RANK + 1.0])
    work: Any = dist.all_reduce(tensor, async_op=True)
    while not work.is_completed():
        time.sleep(0.01)
    return told(tensor)


def in_inference_mode() -> Any:
    with torch.inference_mode():
        tensor = on_chip([RANK + 1.0])
        work: Any = dist.all_reduce(tensor, async_op=True)
        work.get_future().wait()
    again = on_chip([RANK + 1.0])
    dist.all_reduce(again)  # on the memory of the first
    return [told(tensor), told(again)]


def functional() -> Any:
    import torch.distributed._functional_collectives as functions

    group: Any = dist.group.WORLD
    wait: Any = functions.wait_tensor
    return [
        told(wait(functions.all_reduce(on_chip([RANK + 1.0]), "sum", group))),
        told(wait(functions.all_gather_single(on_chip([RANK + 1.0]), 0, group))),
        told(wait(functions.reduce_scatter_single(on_chip([1.0, 2.0]), "sum", 0, group))),
        told(wait(functions.all_to_all_single(on_chip([RANK, 5.0]), None, None, group))),
    ]


def full_tensor() -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh(DEVICE.type, (2,))
    return told(distribute_tensor(on_chip([1.0, 2.0, 3.0]), mesh, [Shard(0)]).full_tensor())


def gathered_objects() -> Any:
    objects: list[Any] = [None, None]
    dist.all_gather_object(objects, {"rank": RANK})
    return objects


def sum_sparse() -> None:
    dist.all_reduce(torch.eye(2).to_sparse())


def wait_for_a_missing_rank() -> None:
    """Begin a call of each kind that the other rank does not make, each in a group of its own, and wait for them."""
    tensor = on_chip([1.0])
    begun: dict[str, Any] = {
        "all_reduce": dist.all_reduce(tensor, group=SHORT[0], async_op=True),
        "barrier": dist.barrier(SHORT[1], async_op=True),
        "recv": dist.irecv(tensor, 1, group=SHORT[2]),
        "recv from any": dist.irecv(tensor, group=SHORT[3]),
    }
    future: Any = dist.all_reduce(tensor, group=SHORT[4], async_op=True)
    for name, work in begun.items():
        attempt(f"missing {name}", work.wait)
    attempt("missing future", future.get_future().wait)
    attempt("missing start", lambda: dist.new_group(timeout=timedelta(seconds=2)))


class Copies(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch's own __init_subclass__
    """Counts copies between the chip and the host."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        devices = {each.device.type for each in args if isinstance(each, Tensor)}
        self.count += len(devices) > 1 or func is torch.ops.aten._to_copy.default
        return func(*args, **(kwargs or {}))


def copies() -> Any:
    tensor, mode = on_chip([1.0]), Copies()  # type: ignore[no-untyped-call]  # torch's
    with mode:
        dist.all_reduce(tensor)
    return mode.count


def pinned() -> Any:
    group: Any = dist.group.WORLD
    return group._buffers.lend(8).is_pinned()


def objects() -> Any:
    sent, scattered = [{"rank": RANK}], [None]
    dist.broadcast_object_list(sent, 1)
    dist.scatter_object_list(scattered, ["first", "second"] if RANK == 0 else None, src=0)
    gathered: list[Any] = [None, None]
    dist.gather_object(scattered[0], gathered if RANK == 0 else None, dst=0)
    return [*sent, *scattered, *gathered]


def main(folder: Path) -> None:
    """Make every call, and write what came of it."""
    for name in ("float32", "bool", "bfloat16", "int16", "float8_e4m3fn"):
        attempt(f"reduced {name}", partial(reduced, getattr(torch, name)))
        attempt(f"broadcast {name}", partial(broadcast, getattr(torch, name)))
        attempt(f"gathered {name}", partial(gathered, getattr(torch, name)))
    for dtype in (torch.float32, torch.int16):
        attempt(f"all to all {dtype}", partial(all_to_all_uneven, dtype))
    for call in ("list", "single"):
        attempt(f"scattered sums, {call}", partial(scattered_sums, call))
    calls: tuple[Callable[[], Any], ...] = (
        *(reduced_to_one, gathered_into_slice, gathered_by_one, scattered, all_to_all, received_from_any),
        *(sent_around, made_together, with_a_future, polled, in_inference_mode, functional, full_tensor),
        *(gathered_objects, objects, copies, pinned, sum_sparse),
    )
    for each in calls:
        attempt(each.__name__, each)
    if RANK == 0:
        wait_for_a_missing_rank()
    attempt("split_group", lambda: dist.split_group(split_ranks=[[0, 1]]))
    dist.barrier()
    if RANK == 0:
        time.sleep(1)
        attempt("without the other rank", lambda: dist.all_reduce(on_chip([1.0])))
    (folder / f"{RANK}.json").write_text(json.dumps(FOUND))
    os._exit(0)  # the group of a rank that has gone would be waited for


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as free:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]))
    RANK = 0 if os.fork() else 1
    chip = northbridge.load("cpu_sim")
    DEVICE = torch.device("cpu_sim", RANK)
    chip.device.select(RANK)
    host = northbridge.HostCollective()
    host.device_type, host.pins_memory = DEVICE.type, "pinned" in sys.argv
    host.register()
    host.initialize(rank=RANK, world_size=2, timeout=timedelta(seconds=60), device=DEVICE)
    host.assert_carries(DEVICE)
    SHORT: Any = [dist.new_group(timeout=timedelta(seconds=4)) for _ in range(5)]
    for each in SHORT:
        dist.barrier(each)
    main(Path(sys.argv[1]))
