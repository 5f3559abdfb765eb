"""torch's own ``load``, even if a vendor's import has replaced it or its parts."""

from __future__ import annotations

import copyreg
import functools
import importlib.util
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

_FILES, _UNPICKLER = "torch.serialization", "torch._weights_only_unpickler"


def torchs_load() -> Callable[..., Any]:
    """Return ``torch.serialization.load``, or a copy if it, or a function that it calls there, was replaced.

    The copy is made from torch's own file. It shares torch's data, such as the classes that a user has allowed and the
    devices that a vendor has registered.
    """
    import torch._weights_only_unpickler as unpickler
    import torch.serialization as files

    if not (_is_replaced(files) or _is_replaced(unpickler)):
        return files.load
    files_copy, unpickler_copy = _copy(_FILES), _copy(_UNPICKLER)
    _share_values(files, files_copy)
    _share_values(unpickler, unpickler_copy)
    vars(files_copy)[_UNPICKLER.rpartition(".")[2]] = unpickler_copy
    load: Callable[..., Any] = files_copy.load
    return load


@functools.cache
def _copy(name: str) -> ModuleType:
    spec = importlib.util.find_spec(name)
    assert spec is not None, f"{name} has been imported"
    assert spec.loader is not None, f"{name} is a module"
    copy = importlib.util.module_from_spec(spec)
    pickled = dict(copyreg.dispatch_table)
    spec.loader.exec_module(copy)
    # The module registers a pickle function for torch.layout, and pickle cannot import a copy's function.
    copyreg.dispatch_table.update(pickled)
    return copy


def _is_replaced(module: ModuleType) -> bool:
    own = vars(_copy(module.__name__))
    return any(_differ(getattr(module, name, None), value) for name, value in own.items() if callable(value))


def _differ(one: object, other: object) -> bool:
    return one is not other and _code(one) != _code(other)


def _code(value: object) -> object:
    if isinstance(value, type):
        return {name: _code(each) for name, each in vars(value).items() if callable(each)}
    return getattr(inspect.unwrap(value), "__code__", None) if callable(value) else None


def _share_values(module: ModuleType, copy: ModuleType) -> None:
    own = vars(copy)
    for name, value in vars(module).items():
        if not (callable(own.get(name, value)) or inspect.ismodule(value) or name.startswith("__")):
            own[name] = value
