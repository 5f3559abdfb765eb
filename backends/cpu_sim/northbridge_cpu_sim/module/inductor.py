"""Inductor has no code generator for the chip: what it asks a device module for refuses it by name."""

from __future__ import annotations

import functools
import inspect
from types import FrameType
from typing import Any

import northbridge
from northbridge_cpu_sim.module import chip


class _Unsupported(type):
    """Refuses to be made into anything, and to say anything of itself but what every class says."""

    def __call__(cls, *_: object, **__: object) -> Any:
        raise _unsupported()

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _unsupported()


class NoInductor(metaclass=_Unsupported):
    """Stand for the code generators that Inductor looks for: raises once a graph with the device asks it anything."""


def _unsupported() -> northbridge.UnsupportedError:
    name = chip.installed_type()
    error: northbridge.UnsupportedError = _error_class()(
        f"inductor generates no code for {name}. Fix: torch.compile(…, backend='aot_eager')",
        inspect.currentframe(),
    )
    return error


@functools.cache
def _error_class() -> Any:
    # Dynamo wraps every error of a compiler in one of its own, but for those of this base. It costs seconds to import,
    # so here, where it has been.
    from torch._dynamo.exc import ShortenTraceback

    class InductorRefusedError(northbridge.UnsupportedError, ShortenTraceback):
        """Inductor was asked to compile for a device that it does not know."""

        def __init__(self, message: str, raised_below: FrameType | None = None) -> None:
            above = None if raised_below is None else raised_below.f_back  # Dynamo shows nothing that is above it
            ShortenTraceback.__init__(self, message, first_useful_frame=above)
            self.capability = "inductor"

        def __reduce__(self) -> tuple[object, ...]:
            return type(self), (str(self),)  # and not what Dynamo hangs on it

    InductorRefusedError.__qualname__ = "InductorRefusedError"  # by which pickle finds it, below
    return InductorRefusedError


def __getattr__(name: str) -> Any:
    if name == "InductorRefusedError":
        return _error_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
