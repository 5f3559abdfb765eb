"""The signature of a call: all that a graph has built in."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from northbridge.errors import UnsupportedError


def flatten(values: Any) -> tuple[list[Any], Any]:
    """Return the leaves in nested tuples, lists and dicts, and their structure."""
    leaves, structure = tree_flatten(values)
    return leaves, structure


def signature_of(values: Any) -> Hashable:
    """Return shapes, dtypes and devices of the tensors in ``values``, and all other values.

    Raises :class:`UnsupportedError` for a value that cannot be compared with that of another call.
    """
    leaves, structure = flatten(values)
    return repr(structure), tuple(_describe(each) for each in leaves)


def _describe(value: Any) -> Hashable:
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.stride(), value.dtype, str(value.device), value.requires_grad
    try:
        hash(value)
    except TypeError:
        raise UnsupportedError(
            f"a graph cannot take a {type(value).__name__}: two calls cannot be compared by it. Fix: pass tensors,"
            " numbers and texts",
            capability="graphs",
        ) from None
    return type(value), value


def reject_elsewhere(what: str, values: Iterable[Any], device_type: str) -> None:
    """Raise :class:`UnsupportedError` if a tensor of ``values``, which are ``what``, is on another type of device."""
    for each in values:
        if isinstance(each, torch.Tensor) and each.device.type != device_type:
            raise UnsupportedError(
                f"{what} is on {each.device}, where a graph of {device_type!r} would never change it. Fix: move it to"
                f" {device_type!r} before",
                capability="graphs",
            )


def addresses(tensors: Iterable[torch.Tensor]) -> tuple[tuple[int, bool], ...]:
    """Return where each tensor's memory begins, and whether it requires a gradient."""
    return tuple((each.data_ptr(), each.requires_grad) for each in tensors)


def static_copies(leaves: Sequence[Any]) -> list[Any]:
    """Return ``leaves`` with each tensor replaced by a copy, which a graph may keep as its input."""
    copies = []
    for each in leaves:
        copy = each.detach().clone() if isinstance(each, torch.Tensor) else each
        copies.append(copy.requires_grad_(each.requires_grad) if isinstance(each, torch.Tensor) else copy)
    return copies


def copy_into(static: Sequence[Any], leaves: Sequence[Any]) -> None:
    """Copy each tensor of ``leaves`` into its place in ``static``."""
    with torch.no_grad():
        for to, each in zip(static, leaves, strict=True):
            if isinstance(each, torch.Tensor):
                to.copy_(each)
