"""A rank without Lightning, asked on its stdin as every other rank is.

``python -m bench.rank_worker DEVICE [LIBRARY]``.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
import weakref
from argparse import Namespace
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from bench.job import Answers, questions
from bench.models import TASKS

RANKS = 2
WARM_UP = 3
_FLOAT = torch.float32.itemsize


def collective(name: str, size: int, device: str) -> Callable[[], object]:
    """Return a call of the collective over ``size`` bytes of zeros, which stay zeros however often they are summed."""
    whole = torch.zeros(size // _FLOAT, device=device)
    part = torch.zeros(size // _FLOAT // RANKS, device=device)
    calls: dict[str, Callable[[], object]] = {
        "all-reduce": lambda: dist.all_reduce(whole),
        "reduce-scatter": lambda: dist.reduce_scatter_tensor(part, whole),
        "all-gather": lambda: dist.all_gather_into_tensor(whole, part),
    }
    return calls[name]


def step(kind: str, task_name: str, device: str) -> Callable[[], object]:
    """Return a training step of a new model, which moves its batch to the device as a loop of a user's does."""
    torch.manual_seed(1)
    task = TASKS[task_name]
    net = task.build().to(device)
    model: nn.Module = net
    inputs, targets = task.draw()
    if kind == "zero-2":
        trained = make_engine(net, device, dist.get_rank())

        def call_engine() -> None:
            here = inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True)
            loss = task.loss(trained(here[0]), here[1])
            trained.backward(loss)
            trained.step()
            loss.item()

        return call_engine
    if kind == "fsdp2":
        _shard(net, device)
    else:
        model = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def call() -> None:
        optimizer.zero_grad()
        here = inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True)
        loss = task.loss(model(here[0]), here[1])
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        loss.item()  # as for a log: it waits for the device

    return call


def make_engine(net: nn.Module, device: str, rank: int) -> Any:
    """Return DeepSpeed's engine that trains ``net`` by ZeRO-2 over the ranks of this process group."""
    os.environ["LOCAL_RANK"] = str(rank)
    deepspeed: Any = import_module("deepspeed")
    accelerators: Any = import_module("deepspeed.accelerator.real_accelerator")
    if device == "cpu_sim":
        accelerators.set_accelerator(import_module("northbridge_cpu_sim.deepspeed").SimAccelerator())
    else:
        # Without shared memory: it would not be Gloo.
        accelerators.get_accelerator().create_op_builder = lambda _name: None
    deepspeed.init_distributed(auto_mpi_discovery=False)
    config = {
        "train_micro_batch_size_per_gpu": 1,  # DeepSpeed only reports by it
        "zero_optimization": {"stage": 2},
        "zero_allow_untested_optimizer": True,
    }
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    made, *_ = deepspeed.initialize(
        args=Namespace(device_rank=rank), model=net, optimizer=optimizer, config=config, dist_init_required=False
    )
    return made


def save_sharded(task_name: str, device: str) -> Callable[[], object]:
    """Return a save of a new model, of which each rank writes its shards to a folder that all share."""
    net = TASKS[task_name].build().to(device)
    _shard(net, device)
    folder = TemporaryDirectory()  # rank 0's has the checkpoint
    shared = [folder.name]
    dist.broadcast_object_list(shared, device=torch.device("cpu"))

    def call() -> None:
        save(net.state_dict(), checkpoint_id=f"{shared[0]}/sharded")

    weakref.finalize(call, folder.cleanup)
    return call


def _shard(net: nn.Module, device: str) -> None:
    for part in (*(layer for layer in net.modules() if isinstance(layer, nn.TransformerEncoderLayer)), net):
        fully_shard(part, mesh=_mesh(device)).set_force_sum_reduction_for_comms(True)  # Gloo lacks the average


def _mesh(device: str) -> DeviceMesh:
    return DeviceMesh(device, range(RANKS))


def _made(question: dict[str, Any], device: str) -> Callable[[], object]:
    if "collective" in question:
        return collective(question["collective"], question["bytes"], device)
    if question["step"] == "sharded-save":
        return save_sharded(question["task"], device)
    return step(question["step"], question["task"], device)


def _seconds(call: Callable[[], object], times: int, *, each: bool) -> float:
    """Return the mean of so many calls, or, where ``each`` is long enough for it, the median of each."""
    dist.barrier()
    start = time.perf_counter()
    ends = [start]
    for _ in range(times):
        call()
        ends.append(time.perf_counter())
    if each:
        return median(after - before for before, after in pairwise(ends))
    return (ends[-1] - start) / times


def main(device: str, library: str = "simccl") -> None:
    """Do what this rank is asked; rank 0 answers."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=UserWarning)  # torch's, of a checkpoint that the next one replaces
    rank = int(os.environ["RANK"])
    if device == "cpu_sim":
        import northbridge

        northbridge.load(device)
        torch.cpu_sim.set_device(rank)  # type: ignore[attr-defined]
        if library == northbridge.HostCollective.name:
            host = northbridge.HostCollective()
            host.device_type, host.pins_memory = device, True
            host.register()
    dist.init_process_group("gloo" if device == "cpu" else f"cpu:gloo,cpu_sim:{library}")
    made: dict[str, Callable[[], object]] = {}
    answers = Answers.capture_stdout()
    for question in questions():
        call = made.get(str(question))
        if call is None:
            call = made[str(question)] = _made(question, device)
            for _ in range(WARM_UP):
                call()
        seconds = _seconds(call, question["times"], each="step" in question)
        if rank == 0:
            answers.give({"seconds": seconds})
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
