"""What a module does in Python, which a replay does not do again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from northbridge.backend import Backend
from northbridge.errors import UnsupportedError

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
            raise UnsupportedError(
                f"{_shown(module, name)} has a hook, {hooks[0]!r}, which runs in no replay. Fix: remove it, or hook a"
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


def _shown(module: torch.nn.Module, name: str) -> str:
    return repr(name) if name else type(module).__name__


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
