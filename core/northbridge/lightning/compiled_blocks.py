"""Regional compilation: each repeated block of a model is compiled instead of the whole model.

Blocks of the same code share one graph, so that a model of 48 layers is compiled in the time of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from northbridge.discovery.current import loaded
from northbridge.errors import ArgumentsError
from northbridge.lightning.blocks import repeated_blocks
from northbridge.lightning.strategies.compilation import with_compiler

if TYPE_CHECKING:
    import torch


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
