"""Files in lazy mode: tensors are moved to the host one by one, and the vendor's walk moves them back."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import _weights_only_unpickler as stock

from northbridge_hpu.simulated.record import put

_PROTOCOL = 4

_save = torch.save
_load = torch.load
_read_archive: Any = torch.serialization._load
_read_legacy: Any = torch.serialization._legacy_load
_stock: Any = stock
_pythons: Any = pickle._Unpickler


def replace() -> None:
    """Replace ``torch.save``, ``torch.load``, and the readers below ``torch.serialization.load``, which stays."""
    put("torch.save", save)
    put("torch.load", load)
    put("torch.serialization._load", read_archive)
    put("torch.serialization._legacy_load", read_legacy)


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


class _Unpickler(_pythons):  # type: ignore[misc]  # Python's own class, whose parts have no types
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

    dispatch = {**_pythons.dispatch, pickle.BUILD[0]: build}  # noqa: RUF012 - as Python's own has it


def _load_restricted(file: Any, **kwargs: Any) -> Any:
    return _Unpickler(file, **kwargs).load()


_of_protocol_4 = SimpleNamespace(Unpickler=_Unpickler, load=_load_restricted, __name__="pickle")
