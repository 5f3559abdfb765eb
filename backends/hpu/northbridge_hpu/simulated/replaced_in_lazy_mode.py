"""The functions of torch that the vendor's import replaces in lazy mode alone: files, and ``torch.nn.Module``."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import _weights_only_unpickler as stock
from torch.nn import Module, Parameter

from northbridge_hpu.simulated.machine import put, variable

_PROTOCOL = 4

_save = torch.save
_load = torch.load
_read_archive: Any = torch.serialization._load
_read_legacy: Any = torch.serialization._legacy_load
_stock: Any = stock
_python_unpickler: Any = pickle._Unpickler


def replace() -> None:
    """Replace them. ``Module``'s first ``__getattr__`` and ``to`` stay available, under the vendor's names."""
    put("torch.save", save)
    put("torch.load", load)
    put("torch.serialization._load", read_archive)
    put("torch.serialization._legacy_load", read_legacy)
    put("torch.nn.Module.add_module", add_module)
    put("torch.nn.Module.__setattr__", set_attribute)
    if all((variable(name) or "1") == "1" for name in ("PT_HPU_WEIGHT_SHARING", "EXPERIMENTAL_WEIGHT_SHARING")):
        put("torch.nn.Module.original__get_attr__", _get_attribute)
        put("torch.nn.Module.__getattr__", get_attribute)
        put("torch.nn.Module.original_to", _to)
        put("torch.nn.Module.to", to)
        put("torch.nn.Parameter.__new__", new_parameter)


def save(
    obj: object,
    f: Any,
    pickle_module: Any = pickle,
    pickle_protocol: int = _PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Save dicts, lists and tuples with each tensor as a plain one on the host, with its own storage.

    Other kinds of dict and tuple become plain ones; other objects are not walked.
    """
    _save(
        _walk(obj, _plain),
        f,
        pickle_module=pickle_module,
        pickle_protocol=pickle_protocol,
        _use_new_zipfile_serialization=_use_new_zipfile_serialization,
        _disable_byteorder_record=_disable_byteorder_record,
    )


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = pickle,
    *,
    weights_only: bool = False,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read to the host, then move the tensors in dicts, lists and tuples to ``map_location``.

    A callable gets the tensor and its device; of a dict only "cpu" is read. Other kinds of dict and tuple come back as
    plain ones. ``weights_only`` defaults to False.
    """
    module = None if weights_only else pickle_module
    read = _load(
        f, map_location="cpu", pickle_module=module, weights_only=bool(weights_only), mmap=mmap, **pickle_load_args
    )
    return read if map_location is None else _walk(read, lambda tensor: _sent(tensor, map_location))


def read_archive(file: Any, map_location: Any, pickle_module: Any, *args: Any, **kwargs: Any) -> Any:
    """Read an archive; with ``weights_only=True`` also of pickle protocol 4."""
    chosen = _of_protocol_4 if pickle_module is _stock else pickle_module
    return _read_archive(file, map_location, chosen, *args, **kwargs)


def read_legacy(file: Any, map_location: Any, pickle_module: Any, **kwargs: Any) -> Any:
    """Read a file of a former format; with ``weights_only=True`` also of pickle protocol 4."""
    chosen = _of_protocol_4 if pickle_module is _stock else pickle_module
    return _read_legacy(file, map_location, chosen, **kwargs)


def _walk(value: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: _walk(each, change) for key, each in value.items()}
    if isinstance(value, list):
        return [_walk(each, change) for each in value]
    if isinstance(value, tuple):
        return tuple(_walk(each, change) for each in value)
    return value


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.data.detach().clone().cpu().as_subclass(torch.Tensor)


def _sent(tensor: torch.Tensor, where: Any) -> Any:
    if isinstance(where, dict):
        return tensor.to(where["cpu"]) if "cpu" in where else tensor
    if callable(where):
        return where(tensor, tensor.device)
    return tensor.to(where)


class _Unpickler(_python_unpickler):  # type: ignore[misc]  # Python's own class, whose parts have no types
    """Unpickler that allows the same names as torch's own."""

    def find_class(self, module: str, name: str) -> Any:
        allowed = {**_stock._get_allowed_globals(), **_stock._get_user_allowed_globals()}
        if f"{module}.{name}" not in allowed:
            raise pickle.UnpicklingError(f"weights_only=True, but the file names {module}.{name}")
        return allowed[f"{module}.{name}"]

    def get_extension(self, code: int) -> None:
        raise pickle.UnpicklingError(f"weights_only=True, but the file names the extension {code}")

    def build(self) -> None:
        built = type(self.stack[-2])
        if built not in (torch.Tensor, torch.nn.Parameter, OrderedDict):
            raise pickle.UnpicklingError(f"weights_only=True, but the file builds a {built.__name__}")
        self.load_build()

    dispatch = {**_python_unpickler.dispatch, pickle.BUILD[0]: build}  # noqa: RUF012 - as Python's own has it


def _load_restricted(file: Any, **kwargs: Any) -> Any:
    return _Unpickler(file, **kwargs).load()


_of_protocol_4 = SimpleNamespace(Unpickler=_Unpickler, load=_load_restricted, __name__="pickle")


_add_module = Module.add_module
_set_attribute = Module.__setattr__
_get_attribute = Module.__getattr__
_to = Module.to
_new_parameter = Parameter.__new__


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
