"""The programs of ranks in test_flight_recorder.py: `python flight_programs.py <function>`, under RANK and so on."""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import northbridge

northbridge.load("cpu_sim")

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
HERE = torch.device("cpu_sim", RANK)


def one_leaves_out_a_backward() -> None:
    """Train with DDP; the last rank leaves out the second backward, and stays until the others have given up."""
    failed = [Path(f"{os.environ['NORTHBRIDGE_FLIGHT_RECORDER']}.{rank}") for rank in range(SIZE)]
    torch.accelerator.set_device_index(RANK)
    dist.init_process_group("simccl", timeout=timedelta(seconds=100))
    model: Any = DistributedDataParallel(nn.Linear(3, 1).to(HERE))
    model(torch.ones(2, 3, device=HERE)).sum().backward()
    everybody: Any = dist.group.WORLD  # who have met
    everybody.set_timeout(timedelta(seconds=4))
    loss = model(torch.ones(2, 3, device=HERE)).sum()
    if RANK == SIZE - 1:
        while not all(path.exists() for path in failed[:-1]):
            time.sleep(0.05)
    else:
        try:
            loss.backward()
            torch.accelerator.synchronize()
        except RuntimeError:
            failed[RANK].touch()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
