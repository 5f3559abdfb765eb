"""torch's ``load`` and ``save``, replaced for one thread while it reads or writes a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from threading import Lock
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
