"""The blocks of a model, the layers that it repeats or names: compiled or sharded one by one.

Compiled blocks of the same code share one graph, so that a model of 48 layers is compiled in the time of one. FSDP2
gathers one sharded block at a time instead of the whole model.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch

from northbridge.discovery.current import loaded
from northbridge.errors import ArgumentsError
from northbridge.lightning.strategies.compilation import with_compiler


def compile_blocks(module: torch.nn.Module, **arguments: Any) -> int:
    """Compile each repeated block of ``module`` in place, and return how many blocks there are.

    A block is an entry of a ``ModuleList`` or ``Sequential`` that has submodules, and at least one neighbour of its
    class. ``arguments`` are those of ``torch.compile``; without ``backend=``, the loaded chip's backend is used.
    Parameters keep their names. Call it in ``configure_model()``, or before ``Fabric.setup()``. Raises
    :class:`ArgumentsError` if there is no such block, and :class:`UnsupportedError` for a backend or an option that
    the chip lacks.
    """
    blocks = repeated_blocks(module)
    if not blocks:
        raise ArgumentsError(
            f"{type(module).__name__} has no block twice in one ModuleList or Sequential. Fix: torch.compile(model)"
        )
    chip = loaded()
    if chip is not None:
        arguments = with_compiler(chip, arguments)
    for block in blocks:
        block.compile(**arguments)
    return len(blocks)


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


def repeated_blocks(module: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the outermost repeated blocks of ``module``, as :func:`compile_blocks` defines them."""
    found: list[torch.nn.Module] = []
    children = list(module.children())
    if isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)):
        counts = Counter(type(each) for each in children)
        found = [each for each in children if counts[type(each)] > 1 and next(each.children(), None) is not None]
    inside = [each for each in children if not any(each is block for block in found)]
    return [*found, *(block for each in inside for block in repeated_blocks(each))]


def named_blocks(module: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the outermost submodules of the classes that models of transformers name in ``_no_split_modules``."""
    lists = (getattr(each, "_no_split_modules", None) or () for each in module.modules())
    names = {str(name) for each in lists for name in each}
    return _of_classes(module, names) if names else []


def _of_classes(module: torch.nn.Module, names: set[str]) -> list[torch.nn.Module]:
    found = []
    for child in module.children():
        found += [child] if type(child).__name__ in names else _of_classes(child, names)
    return found
