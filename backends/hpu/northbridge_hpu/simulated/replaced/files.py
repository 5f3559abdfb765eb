"""Files in lazy mode: tensors go to the host one by one, and come back as the vendor's walk brings them back."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch._weights_only_unpickler import _get_allowed_globals

from northbridge_hpu.simulated.record import put

_PROTOCOL = 4

_save = torch.save
_load = torch.load


def replace() -> None:
    """Replace ``torch.save`` and ``torch.load``; ``torch.serialization`` keeps its own."""
    put("torch.save", save)
    put("torch.load", load)


def save(
    obj: object,
    f: Any,
    pickle_module: Any = pickle,
    pickle_protocol: int = _PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write what dicts, lists and tuples hold, each tensor as a plain one on the host, with a storage of its own.

    Other kinds of dict and tuple become plain ones; into other objects nobody looks.
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
    """Read to the host, then send what dicts, lists and tuples hold to ``map_location``.

    A callable is given the tensor and its device; of a dict only "cpu" is looked at. Other kinds of dict and tuple come
    back as plain ones. ``weights_only`` is False where nothing is said.
    """
    chosen = _of_weights_only(pickle_module) if weights_only else pickle_module
    read = _load(f, map_location="cpu", pickle_module=chosen, weights_only=False, mmap=mmap, **pickle_load_args)
    return read if map_location is None else _walk(read, lambda tensor: _sent(tensor, map_location))


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


def _of_weights_only(pickle_module: Any) -> Any:
    allowed = _get_allowed_globals()

    class Unpickler(pickle_module.Unpickler):  # type: ignore[misc]
        def find_class(self, module: str, name: str) -> Any:
            if f"{module}.{name}" not in allowed:
                raise pickle.UnpicklingError(f"weights_only=True, but the file names {module}.{name}")
            return allowed[f"{module}.{name}"]

    return _like(pickle_module, Unpickler=Unpickler)


def _like(module: Any, **changed: Any) -> ModuleType:
    copy = ModuleType(module.__name__)
    copy.__dict__.update({**vars(module), **changed})
    return copy
