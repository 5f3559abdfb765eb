"""torch's ``load`` and ``save``: replaced for one thread, and torch's own if a vendor's import has replaced them."""

from __future__ import annotations

import copyreg
import functools
import importlib.util
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from threading import Lock
from types import ModuleType
from typing import Any

import torch

Function = Callable[..., Any]


class ThreadOverride:
    """A function of torch that a thread replaces for a while; all other threads call the function that was there.

    Meanwhile torch has a function that asks which thread calls. The last thread puts the former one back.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._mine: ContextVar[Function | None] = ContextVar(name, default=None)
        self._lock = Lock()
        self._uses = 0
        self._former: Function | None = None  # read when it is used: a vendor's import may replace it
        self._asking: Function | None = None

    @property
    def mine(self) -> Function | None:
        """This thread's replacement; None if it has none."""
        return self._mine.get()

    @property
    def former(self) -> Function:
        """The function of threads without a replacement."""
        with self._lock:
            found: Function = getattr(torch, self._name)
            return self._former if self._former is not None and found is self._asking else found

    @contextmanager
    def use(self, function: Function) -> Iterator[None]:
        """Let this thread call ``function`` inside the ``with``; calls by ``function`` go to the former one."""
        token = self._mine.set(function)
        with self._lock:
            if not self._uses:
                self._former = former = getattr(torch, self._name)
                self._asking = _asking(self._mine, former)
                setattr(torch, self._name, self._asking)
            self._uses += 1
        try:
            yield
        finally:
            with self._lock:
                self._uses -= 1
                if not self._uses and getattr(torch, self._name) is self._asking:  # else another has replaced it
                    setattr(torch, self._name, self._former)
            self._mine.reset(token)


def _asking(mine: ContextVar[Function | None], former: Function) -> Function:
    @wraps(former, updated=())
    def ask(*args: Any, **kwargs: Any) -> Any:
        function = mine.get()
        if function is None:
            return former(*args, **kwargs)
        token = mine.set(None)
        try:
            return function(*args, **kwargs)
        finally:
            mine.reset(token)

    return ask


LOAD = ThreadOverride("load")
SAVE = ThreadOverride("save")


_FILES, _UNPICKLER = "torch.serialization", "torch._weights_only_unpickler"


def stock_load() -> Callable[..., Any]:
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
    pairs = ((getattr(module, name, None), value) for name, value in own.items() if callable(value))
    return any(found is not value and _code(found) != _code(value) for found, value in pairs)


def _code(value: object) -> object:
    if isinstance(value, type):
        return {name: _code(each) for name, each in vars(value).items() if callable(each)}
    return getattr(inspect.unwrap(value), "__code__", None) if callable(value) else None


def _share_values(module: ModuleType, copy: ModuleType) -> None:
    own = vars(copy)
    for name, value in vars(module).items():
        if not (callable(own.get(name, value)) or inspect.ismodule(value) or name.startswith("__")):
            own[name] = value
