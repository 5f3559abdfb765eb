"""Sharding block by block: FSDP2 gathers one block of a model at a time instead of the whole model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from northbridge.errors import ArgumentsError
from northbridge.lightning.blocks import named_blocks, repeated_blocks

if TYPE_CHECKING:
    import torch


def shard_blocks(module: torch.nn.Module, **arguments: Any) -> torch.nn.Module:
    """Shard each block of ``module`` with torch's ``fully_shard``, then the rest, and return ``module``.

    The blocks are those that a model of transformers names in ``_no_split_modules``, or else the repeated ones, as in
    :func:`compile_blocks`. ``arguments`` are those of ``fully_shard``, such as ``mesh=``. Call it in
    ``configure_model()``, or in the ``parallelize_fn=`` of a Fabric's strategy. Raises :class:`ArgumentsError` without
    a block.
    """
    from torch.distributed.fsdp import fully_shard

    blocks = named_blocks(module) or repeated_blocks(module)
    if not blocks:
        raise ArgumentsError("no block is named or repeated. Fix: fully_shard(layer)")
    for block in dict.fromkeys(blocks):
        fully_shard(block, **arguments)
    fully_shard(module, **arguments)
    return module
