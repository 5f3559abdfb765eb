"""``torch.nn.Module`` in lazy mode: every submodule gets a hook, and attributes are read by another function."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import Module, Parameter

from northbridge_hpu.simulated.record import put

_add_module = Module.add_module
_set_attribute = Module.__setattr__
_get_attribute = Module.__getattr__
_to = Module.to
_new_parameter = Parameter.__new__


def replace() -> None:
    """Replace ``Module.add_module`` and ``Module.__setattr__``, which then hook every submodule."""
    put("torch.nn.Module.add_module", add_module)
    put("torch.nn.Module.__setattr__", set_attribute)


def share_weights() -> None:
    """Replace ``Module.__getattr__``, ``Module.to`` and ``Parameter.__new__``; the first two stay available."""
    put("torch.nn.Module.original__get_attr__", _get_attribute)
    put("torch.nn.Module.__getattr__", get_attribute)
    put("torch.nn.Module.original_to", _to)
    put("torch.nn.Module.to", to)
    put("torch.nn.Parameter.__new__", new_parameter)


def add_module(self: Module, name: str, module: Module | None) -> None:
    """Add a submodule, and hook it."""
    _add_module(self, name, module)
    _hook(module)


def set_attribute(self: Module, name: str, value: Any) -> None:
    """Set an attribute; a submodule is hooked."""
    _set_attribute(self, name, value)
    _hook(value)


def get_attribute(self: Module, name: str) -> Any:
    """Return an attribute with the original function."""
    return self.original__get_attr__(name)  # type: ignore[operator]


def to(self: Module, *args: Any, **kwargs: Any) -> Module:
    """Move a module with the original function."""
    moved: Module = self.original_to(*args, **kwargs)  # type: ignore[operator]
    return moved


def new_parameter(cls: type[Parameter], data: torch.Tensor | None = None, requires_grad: bool = True) -> Parameter:
    """Create a parameter with the original function."""
    return _new_parameter(cls, data, requires_grad)


def _hook(value: object) -> None:
    if isinstance(value, Module) and _begin not in value._forward_pre_hooks.values():
        value.register_forward_pre_hook(_begin)
        value.register_forward_hook(_end, always_call=True)


def _begin(module: Module, args: Any) -> None:
    """Tell the graph compiler which module begins; the simulation does not have one."""


def _end(module: Module, args: Any, result: Any) -> None:
    """Tell the graph compiler that the module has ended."""
