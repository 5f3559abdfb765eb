"""DeepSpeed's ZeRO-2 in a rank, on the simulated chip or on the CPU. Its import brings DeepSpeed."""

from __future__ import annotations

import os
from argparse import Namespace
from importlib import import_module
from typing import Any

import torch
from torch import nn

BATCH = 1  # DeepSpeed only reports by it
_CONFIG = {
    "train_micro_batch_size_per_gpu": BATCH,
    "zero_optimization": {"stage": 2},
    "zero_allow_untested_optimizer": True,
}


def engine(net: nn.Module, device: str, rank: int) -> Any:
    """Return the engine that trains ``net`` over the ranks of this process group."""
    os.environ["LOCAL_RANK"] = str(rank)
    deepspeed: Any = import_module("deepspeed")
    accelerators: Any = import_module("deepspeed.accelerator.real_accelerator")
    if device == "cpu_sim":
        accelerators.set_accelerator(import_module("northbridge_cpu_sim.deepspeed").SimAccelerator())
    else:
        chosen = accelerators.get_accelerator()
        chosen.create_op_builder = _without_shared_memory  # it would not be Gloo
    deepspeed.init_distributed(auto_mpi_discovery=False)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    made, *_ = deepspeed.initialize(
        args=Namespace(device_rank=rank), model=net, optimizer=optimizer, config=_CONFIG, dist_init_required=False
    )
    return made


def _without_shared_memory(_name: str) -> None:
    return None
