"""Effects of PT_HPU_GPU_MIGRATION: the HPU looks like CUDA."""

from __future__ import annotations

import torch.distributed as dist

from northbridge_hpu.simulated import devices
from northbridge_hpu.simulated.record import put

_get_backend = dist.get_backend


def replace() -> None:
    """Let ``torch.distributed`` return "nccl", and CUDA look available."""
    put("torch.distributed.get_backend", get_backend)
    put("torch.cuda.is_available", devices.is_available)
    put("torch.cuda.device_count", devices.device_count)


def get_backend(group: dist.ProcessGroup | None = None) -> str:
    """Return the name of the group's library, but "nccl" for HCCL."""
    found = str(_get_backend(group))
    return "nccl" if found == "hccl" else found
