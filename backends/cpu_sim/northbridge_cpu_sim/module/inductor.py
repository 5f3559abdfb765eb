"""Replacements of Inductor's code generators, which the chip lacks; using one raises an error with its name."""

from __future__ import annotations

import functools
import inspect
from types import FrameType
from typing import Any

import northbridge
from northbridge_cpu_sim.module import chip


class _Unsupported(type):
    """Raises an error on every call and attribute, except the attributes that every class has."""

    def __call__(cls, *_: object, **__: object) -> Any:
        raise _unsupported()

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _unsupported()


class NoInductor(metaclass=_Unsupported):
    """Stands for the code generators that Inductor looks up: raises as soon as a graph with the device uses it."""


def _unsupported() -> northbridge.UnsupportedError:
    name = chip.installed_type()
    error: northbridge.UnsupportedError = _error_class()(
        f"inductor generates no code for {name}. Fix: torch.compile(…, backend='aot_eager')",
        inspect.currentframe(),
    )
    return error


@functools.cache
def _error_class() -> Any:
    # Dynamo wraps each error of a compiler in its own, except errors of this base. Its import takes seconds, so it is
    # here, where Dynamo has already imported it.
    from torch._dynamo.exc import ShortenTraceback

    class InductorRefusedError(northbridge.UnsupportedError, ShortenTraceback):
        """Inductor was asked to compile for a device that it does not support."""

        def __init__(self, message: str, raised_below: FrameType | None = None) -> None:
            above = None if raised_below is None else raised_below.f_back  # Dynamo hides the frames above it
            ShortenTraceback.__init__(self, message, first_useful_frame=above)
            self.capability = "inductor"

        def __reduce__(self) -> tuple[object, ...]:
            return type(self), (str(self),)  # without the attributes that Dynamo adds

    InductorRefusedError.__qualname__ = "InductorRefusedError"  # pickle finds it by this name, below
    return InductorRefusedError


def __getattr__(name: str) -> Any:
    if name == "InductorRefusedError":
        return _error_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
