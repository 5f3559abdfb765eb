"""The program of one rank, `python job.py <kind> <chip>`: train a small net, and print a digest of its weights."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import northbridge

STEPS = 8
TIMEOUT_S = 10


def train(kind: str, chip: str) -> str:
    """Train with DDP or FSDP2, and return the digest of all weights."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    backend = northbridge.get(chip)
    backend.bridge.prepare()
    northbridge.load(chip)
    backend.bridge.prepare_rank(index=rank, local_rank=rank, world_size=size)
    backend.device.select(rank)
    here = backend.device.root(rank)
    timeout = timedelta(seconds=TIMEOUT_S)
    backend.require_collective().initialize(rank=rank, world_size=size, timeout=timeout, device=here)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).to(here)
    model: Any = fully_shard(net) if kind == "fsdp2" else DistributedDataParallel(net)
    if kind == "fsdp2":
        model.set_force_sum_reduction_for_comms(True)  # a vendor's library may not average
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for step in range(STEPS):
        inputs = torch.randn(6, 8, generator=torch.Generator().manual_seed(100 * step + dist.get_rank()))
        loss = model(inputs.pin_memory().to(here, non_blocking=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        backend.bridge.after_backward()
        optimizer.step()
        backend.bridge.after_step()
    return _digest(value.full_tensor() if kind == "fsdp2" else value for value in model.state_dict().values())


def _digest(weights: Iterable[Tensor]) -> str:
    digest = hashlib.sha256()
    for weight in weights:
        digest.update(weight.detach().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    print(f"weights {train(*sys.argv[1:])}", flush=True)
    dist.destroy_process_group()
