"""The program of one rank, `python job.py <kind>`: train a small net, and print a digest of its weights."""

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


def train(kind: str) -> str:
    """Train with DDP or FSDP2, and return the digest of all weights."""
    torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("simccl", timeout=timedelta(seconds=TIMEOUT_S))
    here = torch.device("cpu_sim", torch.accelerator.current_device_index())
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).to(here)
    model: Any = fully_shard(net) if kind == "fsdp2" else DistributedDataParallel(net)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for step in range(STEPS):
        inputs = torch.randn(6, 8, generator=torch.Generator().manual_seed(100 * step + dist.get_rank()))
        loss = model(inputs.pin_memory().to(here, non_blocking=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return _digest(value.full_tensor() if kind == "fsdp2" else value for value in model.state_dict().values())


def _digest(weights: Iterable[Tensor]) -> str:
    digest = hashlib.sha256()
    for weight in weights:
        digest.update(weight.detach().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    northbridge.load("cpu_sim")
    print(f"weights {train(sys.argv[1])}", flush=True)
    dist.destroy_process_group()
