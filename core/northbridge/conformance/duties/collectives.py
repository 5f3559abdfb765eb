"""Speak to the chip's communication library with no Lightning: reduce through the backend, the rest through torch."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

import northbridge
from northbridge.conformance.findings import write
from northbridge.conformance.scenario import Scenario

DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8")
GIVEN = ([1, 2, 3], [5, 1, 3], [2, 4, 3], [3, 3, 3])
"""What each rank gives to a reduction."""

GRADIENTS = (0.1, 0.2, 0.0, 0.0)
"""What each rank gives to a communication hook."""

SHORT_S = 5.0
"""How long the ranks wait for one that never comes."""

LIMIT = timedelta(seconds=120)


def perform(scenario: Scenario, folder: Path) -> None:
    """Do one of each collective in this rank, and report."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    backend = northbridge.load(scenario.accelerator)
    backend.bridge.prepare_rank(index=rank, local_rank=rank, world_size=ranks)
    backend.device.select(rank)
    device = backend.device.root(rank)
    backend.collective.initialize(rank=rank, world_size=ranks, timeout=LIMIT, device=device)
    backend.collective.assert_carries(device)
    found: dict[str, Any] = {"device": str(device)}
    found |= _reduced(backend.collective, device, rank)
    found |= _moved(device, rank, ranks)
    found |= _asynchronous(device, rank)
    found["compressed gradient"] = _compressed_gradient(device, rank)
    found["joined weight"] = _joined_weight(device, rank)
    found["absent rank"] = _wait_for_an_absent_rank(backend.device, device, rank)
    write(folder, "collectives", rank, found)
    dist.destroy_process_group()


def large_number(accelerator: str) -> int:
    """Return a number that float32 does not hold to the last digit, nor int32 where the chip has int64."""
    return 2**28 if northbridge.load(accelerator).present_capabilities().int64.denied else 2**40


def _reduced(collective: northbridge.Collective, device: torch.device, rank: int) -> dict[str, Any]:
    """Reduce :data:`GIVEN` in each dtype."""
    found: dict[str, Any] = {}
    for dtype in DTYPES:
        for word in ("SUM", "MIN", "MAX"):
            tensor = torch.tensor(GIVEN[rank], dtype=getattr(torch, dtype), device=device)
            collective.all_reduce(tensor, word.lower())
            found[f"{word} of {dtype}"] = tensor.tolist()
    large = torch.tensor([large_number(device.type) + rank], device=device)
    collective.all_reduce(large)
    found["sum of large numbers"] = large.tolist()
    found["large"] = large_number(device.type)
    transposed = (torch.arange(4.0, device=device).view(2, 2) * (rank + 1)).t().contiguous()
    dist.reduce(transposed, 0)
    found["reduce to rank 0"] = transposed.tolist()
    return found


def _moved(device: torch.device, rank: int, ranks: int) -> dict[str, Any]:
    given = torch.tensor([rank + 0.5, rank - 0.5], device=device)
    sent = given.clone()
    dist.broadcast(sent, 1)
    gathered = [torch.empty_like(given) for _ in range(ranks)]
    dist.all_gather(gathered, given)
    flat = torch.empty(ranks * 2, device=device)
    dist.all_gather_into_tensor(flat, given)
    share = torch.empty(2, device=device)
    dist.reduce_scatter_tensor(share, torch.arange(2.0 * ranks, device=device) * (rank + 1))
    objects: list[Any] = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank, "text": "ü" * rank})
    message = [f"from {rank}", rank]
    dist.broadcast_object_list(message, 1)
    dist.barrier()
    return {
        "broadcast": sent.tolist(),
        "gathered": [each.tolist() for each in gathered],
        "gathered flat": flat.tolist(),
        "gathered on": sorted({str(each.device) for each in (*gathered, flat, sent, share)}),
        "scattered": share.tolist(),
        "objects": objects,
        "message": message,
    }


def _asynchronous(device: torch.device, rank: int) -> dict[str, Any]:
    """Start collectives on tensors that nothing else refers to, while others are made and dropped."""
    pending = []
    for number in range(50):
        temporary = torch.full((1000,), float(number + rank), device=device)
        pending.append((temporary[:3], dist.all_reduce(temporary, async_op=True)))
        del temporary
        torch.full((1000,), -1.0, device=device)
    sums = []
    for view, work in pending:
        assert work is not None
        work.wait()
        sums.append(view.tolist())
    return {"asynchronous": sums}


def _compressed_gradient(device: torch.device, rank: int) -> float:
    """Return the gradient that the ranks agree on, sent as float16."""
    model = _one_weight(device)
    model.register_comm_hook(None, fp16_compress_hook)
    model(torch.tensor([[GRADIENTS[rank]]], device=device)).sum().backward()
    (weight,) = model.parameters()
    assert weight.grad is not None
    return weight.grad.item()


def _joined_weight(device: torch.device, rank: int) -> float:
    """Train on two batches in rank 0 and on two more in each rank after it; return the weight."""
    model = _one_weight(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with Join([model]):
        for number in range(2 + 2 * rank):
            optimizer.zero_grad()
            model(torch.tensor([[float(number + 1)]], device=device)).sum().backward()
            optimizer.step()
    (weight,) = model.parameters()
    return weight.item()


def _one_weight(device: torch.device) -> DistributedDataParallel:
    layer = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(layer.weight)
    return DistributedDataParallel(layer.to(device))


def _wait_for_an_absent_rank(chip: northbridge.Device, device: torch.device, rank: int) -> dict[str, Any]:
    """Let rank 0 begin a collective that the others stay out of."""
    group = dist.new_group(timeout=timedelta(seconds=SHORT_S))
    outcome: dict[str, Any] = {}
    if rank == 0:
        began = time.monotonic()
        try:
            dist.all_reduce(torch.ones(1, device=device), group=group)
            chip.synchronize()
            outcome = {"error": ""}
        except RuntimeError as error:
            outcome = {"error": str(error), "seconds": time.monotonic() - began}
    dist.barrier()
    return outcome
