"""The blocks of a model: the layers that it repeats, or those that it names itself."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def repeated_blocks(module: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the outermost repeated blocks of ``module``.

    A block is an entry of a ``ModuleList`` or ``Sequential`` that has submodules, and at least one neighbour of its
    class.
    """
    from torch.nn import ModuleList, Sequential

    found: list[torch.nn.Module] = []
    children = list(module.children())
    if isinstance(module, (ModuleList, Sequential)):
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
