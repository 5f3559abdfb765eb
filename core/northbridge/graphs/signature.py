"""What a graph has built in: the signature of a call, and what a module does in Python, which no replay does again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from northbridge.backend import Backend
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
    return [
        each.detach().clone().requires_grad_(each.requires_grad) if isinstance(each, torch.Tensor) else each
        for each in leaves
    ]


def copy_into(static: Sequence[Any], leaves: Sequence[Any]) -> None:
    """Copy each tensor of ``leaves`` into its place in ``static``."""
    with torch.no_grad():
        for to, each in zip(static, leaves, strict=True):
            if isinstance(each, torch.Tensor):
                to.copy_(each)


_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def reject_hooks(module: torch.nn.Module, backend: Backend) -> None:
    """Raise :class:`UnsupportedError` if a part of ``module`` has a hook, or a buffer that requires a gradient.

    Hooks of Northbridge and of the chip's software may stay: they do nothing in a captured step.
    """
    allowed = {"northbridge", backend.bridge.package, type(backend.bridge).__module__.partition(".")[0]}
    for name, part in module.named_modules():
        hooks = [
            hook for kind in _HOOKS for hook in getattr(part, kind, {}).values() if _package_of(hook) not in allowed
        ]
        if hooks:
            where = repr(name) if name else type(module).__name__
            raise UnsupportedError(
                f"{where} has a hook, {hooks[0]!r}, which runs in no replay. Fix: remove it, or hook a"
                " module around the graph",
                capability="graphs",
            )
    for name, buffer in module.named_buffers():
        if buffer.requires_grad:
            raise UnsupportedError(
                f"the buffer {name!r} requires a gradient, which a graph does not compute. Fix: make it a parameter",
                capability="graphs",
            )


def _package_of(hook: Callable[..., Any]) -> str:
    function = getattr(hook, "func", hook)
    return str(getattr(function, "__module__", "")).partition(".")[0]


Facts = Mapping[str, tuple[str, object]]


def python_state(module: torch.nn.Module) -> Facts:
    """Return the identity of each tensor in ``module``, and each public number, text and flag of its parts."""
    facts: dict[str, tuple[str, object]] = {}
    for prefix, part in module.named_modules():
        values = {name: value for name, value in vars(part).items() if not name.startswith("_")}
        for name, value in {**values, **part._parameters, **part._buffers}.items():
            full = f"{prefix}.{name}" if prefix else name
            if isinstance(value, torch.Tensor):
                facts[full] = "tensor", id(value)
            elif isinstance(value, (int, float, str)):
                facts[full] = "value", value
    return facts


def reject_changes(before: Facts, after: Facts) -> None:
    """Raise :class:`UnsupportedError` if the captured work gave an attribute another tensor or value."""
    for name, fact in after.items():
        if before.get(name) != fact:
            what = "tensor" if fact[0] == "tensor" else "value"
            raise UnsupportedError(
                f"{name!r} got another {what} in Python, as in no replay. Fix: change a tensor in place, or outside of"
                " the capture",
                capability="graphs",
            )
