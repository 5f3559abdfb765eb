"""A chip whose memory is full, as Lightning's search for a batch size has to know it."""

from __future__ import annotations

import torch

from northbridge.lightning.accelerators.held import held


def is_out_of_memory(error: BaseException) -> bool:
    """Whether ``error`` says that the memory of a chip is full that this process holds."""
    if not isinstance(error, RuntimeError) or not held():
        return False
    said = str(error)
    return isinstance(error, torch.OutOfMemoryError) or any(
        text in said for backend in held().values() for text in backend.device.out_of_memory
    )


def empty_caches() -> None:
    """Give back what the chips that this process holds keep of memory that nobody uses."""
    for backend in held().values():
        backend.device.empty_cache()
