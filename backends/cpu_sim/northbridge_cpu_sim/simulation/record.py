"""Record of uses of a vendor's software, in the folder of ``NORTHBRIDGE_CPU_SIM_RECORD``.

One line a name and kind: ``read``, ``call``, ``write``, or ``show`` (by a test), a space, and the name. Without
the variable nothing is watched, and nothing costs anything.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from pkgutil import resolve_name
from types import FrameType, FunctionType, ModuleType
from typing import Any, ClassVar, Literal, TypeVar

Kind = Literal["read", "call", "write", "show"]
Function = TypeVar("Function", bound=Callable[..., Any])

_OF_EVERY_SIMULATION = ("northbridge_cpu_sim", "importlib", "_frozen_importlib")


class Record:
    """Write down what stand-ins for a vendor's software are asked for, and what they ask the environment for.

    ``simulation`` are the packages and modules of the stand-ins: what those read of one another is not written down.
    ``names`` gives the module under whose name a symbol is known, where several modules offer it.
    """

    VARIABLE: ClassVar = "NORTHBRIDGE_CPU_SIM_RECORD"
    FILE: ClassVar = "touched"
    """The file in that folder; all processes append to it."""

    def __init__(self, *simulation: str, names: Mapping[str, str] | None = None) -> None:
        self._simulation = (*simulation, *_OF_EVERY_SIMULATION)
        self._names = names or {}
        self._noted: set[tuple[str, Kind]] = set()
        self._recorded: dict[tuple[str, FunctionType], Callable[..., Any]] = {}

    @classmethod
    def is_recording(cls) -> bool:
        """Return whether anything is written down in this process."""
        return bool(os.environ.get(cls.VARIABLE))

    def note(self, name: str, kind: Kind) -> None:
        """Write down that ``name`` was touched, if that is new to this process."""
        folder = os.path.expanduser(os.environ.get(self.VARIABLE, ""))
        if not folder or (name, kind) in self._noted:
            return
        self._noted.add((name, kind))
        Path(folder).mkdir(parents=True, exist_ok=True)
        # One write to a file that is only appended to: lines of several processes do not mix.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)  # Windows knows no such links
        file = os.open(Path(folder, self.FILE), flags, 0o644)
        try:
            os.write(file, f"{kind} {name}\n".encode())
        finally:
            os.close(file)

    def variable(self, name: str) -> str | None:
        """Return what the environment says, as the vendor's software reads it."""
        self.note(name, "read")
        return os.environ.get(name)

    def set_variable(self, name: str, text: str) -> None:
        """Write to the environment, as the vendor's software does."""
        self.note(name, "write")
        os.environ[name] = text

    def recorded(self, name: str, function: Function) -> Function:
        """Return ``function``, every call of which is written down as one of ``name``."""
        if not self.is_recording():
            return function

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.note(name, "call")
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    def put(self, name: str, function: Callable[..., Any]) -> None:
        """Put ``function`` in the place of what stands under the dotted ``name``, and there alone."""
        owner, _, attribute = name.rpartition(".")
        setattr(resolve_name(owner), attribute, self.recorded(name, function))

    def watch(self, module: str) -> None:
        """Record reads and calls of the stand-in ``module`` by code outside of the simulation."""
        if self.is_recording():
            sys.modules[module].__class__ = _watched_by(self)

    def canonical(self, name: str) -> str:
        """Return the one name of what several modules offer."""
        for module, known in self._names.items():
            if f"{name}.".startswith(f"{module}."):
                return known + name.removeprefix(module)
        return name

    def _is_of_the_simulation(self, frame: FrameType) -> bool:
        caller = str(frame.f_globals.get("__name__"))
        return any(f"{caller}.".startswith(f"{each}.") for each in self._simulation)

    def _recorded_once(self, name: str, function: FunctionType) -> Callable[..., Any]:
        # A function that is read twice is the same function.
        if (name, function) not in self._recorded:
            self._recorded[name, function] = self.recorded(name, function)
        return self._recorded[name, function]


def _watched_by(record: Record) -> type[ModuleType]:
    class Watched(ModuleType):
        def __getattribute__(self, name: str) -> Any:
            if name.startswith("__") or record._is_of_the_simulation(sys._getframe(1)):
                return super().__getattribute__(name)
            dotted = record.canonical(f"{super().__getattribute__('__name__')}.{name}")
            record.note(dotted, "read")
            value = super().__getattribute__(name)
            return record._recorded_once(dotted, value) if isinstance(value, FunctionType) else value

    return Watched
