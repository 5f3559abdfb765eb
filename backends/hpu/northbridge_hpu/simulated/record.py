"""What is touched of the vendor's software, written down where ``NORTHBRIDGE_HPU_SIM_RECORD`` names a folder.

One line a name and kind: ``read``, ``call``, ``write``, or ``show`` (by a test), a space, and the name. Without
the variable nothing is watched, and nothing costs anything.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, FunctionType, ModuleType
from typing import Any, Literal, TypeVar

VARIABLE = "NORTHBRIDGE_HPU_SIM_RECORD"
FILE = "touched"
"""The file in that folder; all processes append to it."""

Kind = Literal["read", "call", "write", "show"]
Function = TypeVar("Function", bound=Callable[..., Any])

_SIMULATION = (
    "habana_frameworks",
    "pyhlml",
    "northbridge_hpu.simulated",
    "northbridge_cpu_sim",
    "importlib",
    "_frozen_importlib",
)
_noted: set[tuple[str, Kind]] = set()


def is_recording() -> bool:
    """Return whether anything is written down in this process."""
    return bool(os.environ.get(VARIABLE))


def note(name: str, kind: Kind) -> None:
    """Write down that ``name`` was touched, if that is new to this process."""
    folder = os.environ.get(VARIABLE)
    if not folder or (name, kind) in _noted:
        return
    _noted.add((name, kind))
    Path(folder).mkdir(parents=True, exist_ok=True)
    # One write to a file that is only appended to: lines of several processes do not mix.
    file = os.open(Path(folder, FILE), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, f"{kind} {name}\n".encode())
    finally:
        os.close(file)


def variable(name: str) -> str | None:
    """Return what the environment says, as the vendor's software reads it."""
    note(name, "read")
    return os.environ.get(name)


def set_variable(name: str, text: str) -> None:
    """Write to the environment, as the vendor's software does."""
    note(name, "write")
    os.environ[name] = text


def recorded(name: str, function: Function) -> Function:
    """Return ``function``, every call of which is written down as one of ``name``."""
    if not is_recording():
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        note(name, "call")
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def watch(module: str) -> None:
    """Write down what is read of the stand-in ``module``, by whoever is not the simulation, and what is called."""
    if is_recording():
        sys.modules[module].__class__ = _Watched


def canonical(name: str) -> str:
    """Return the one name of what several modules offer: ``torch.hpu`` is the vendor's ``hpu`` module."""
    for other in ("habana_frameworks.torch.core.hpu", "habana_frameworks.torch.hpu"):
        if f"{name}.".startswith(f"{other}."):
            return "torch.hpu" + name.removeprefix(other)
    return name


class _Watched(ModuleType):
    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__") or _is_of_the_simulation(sys._getframe(1)):
            return super().__getattribute__(name)
        dotted = canonical(f"{super().__getattribute__('__name__')}.{name}")
        note(dotted, "read")
        value = super().__getattribute__(name)
        return _recorded_once(dotted, value) if isinstance(value, FunctionType) else value


@functools.cache
def _recorded_once(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    # A function that is read twice is the same function.
    return recorded(name, function)


def _is_of_the_simulation(frame: FrameType) -> bool:
    caller = str(frame.f_globals.get("__name__"))
    return any(f"{caller}.".startswith(f"{each}.") for each in _SIMULATION)
