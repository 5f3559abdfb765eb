"""Record of uses of a vendor's software, in the folder of ``NORTHBRIDGE_CPU_SIM_RECORD``.

One line for each name and kind: ``read``, ``call``, ``write``, ``rely`` (a backend has read it), or ``show`` (by a
test), a space, and the name. Without the variable nothing is watched, at no cost.
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

Kind = Literal["read", "call", "write", "rely", "show"]
Function = TypeVar("Function", bound=Callable[..., Any])
Names = Mapping[str, object]
Table = Mapping[str, Names | Callable[[], Names]]
"""Stand-ins, as :class:`northbridge.Simulation` has them: the names of each module, or a function that returns them."""

_OF_EVERY_SIMULATION = ("northbridge_cpu_sim", "importlib", "_frozen_importlib")


class Record:
    """Records the used names of a vendor's stand-ins, and the variables that they read and set.

    ``simulation`` are the packages and modules of the stand-ins: reads between them are not recorded. ``names`` gives
    the module under whose name a symbol is recorded, if several modules have it.
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
        """Return True if this process records."""
        return bool(os.environ.get(cls.VARIABLE))

    def note(self, name: str, kind: Kind) -> None:
        """Record that ``name`` was used, once for each process."""
        folder = os.path.expanduser(os.environ.get(self.VARIABLE, ""))
        if not folder or (name, kind) in self._noted:
            return
        self._noted.add((name, kind))
        Path(folder).mkdir(parents=True, exist_ok=True)
        # One write to a file opened for appending: lines of several processes do not mix.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag
        file = os.open(Path(folder, self.FILE), flags, 0o644)
        try:
            os.write(file, f"{kind} {name}\n".encode())
        finally:
            os.close(file)

    def variable(self, name: str) -> str | None:
        """Return a variable, as the vendor's software reads it."""
        self.note(name, "read")
        return os.environ.get(name)

    def set_variable(self, name: str, text: str) -> None:
        """Set a variable, as the vendor's software does."""
        self.note(name, "write")
        os.environ[name] = text

    def recorded(self, name: str, function: Function) -> Function:
        """Return ``function``, wrapped so that every call is recorded as one of ``name``."""
        if not self.is_recording():
            return function

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.note(name, "call")
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    def put(self, name: str, function: Callable[..., Any]) -> None:
        """Replace the object under the dotted ``name`` by ``function``, and only there."""
        owner, _, attribute = name.rpartition(".")
        setattr(resolve_name(owner), attribute, self.recorded(name, function))

    def watch(self, module: str) -> None:
        """Record reads and calls of the stand-in ``module`` by code outside of the simulation."""
        if self.is_recording():
            sys.modules[module].__class__ = _watched_by(self)

    def watched(self, table: Table) -> Table:
        """Return a table of stand-ins, each of which is watched from its import on."""
        if not self.is_recording():
            return table
        return {name: functools.partial(self._watched_names, name, names) for name, names in table.items()}

    def _watched_names(self, module: str, names: Names | Callable[[], Names]) -> Names:
        self.watch(module)
        return names() if callable(names) else names

    def canonical(self, name: str) -> str:
        """Return the recorded name of a symbol that several modules have."""
        for module, known in self._names.items():
            if f"{name}.".startswith(f"{module}."):
                return known + name.removeprefix(module)
        return name

    def _is_of_the_simulation(self, frame: FrameType) -> bool:
        caller = str(frame.f_globals.get("__name__"))
        return any(f"{caller}.".startswith(f"{each}.") for each in self._simulation)

    def _is_of_the_backend(self, frame: FrameType) -> bool:
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        return f"{package}.simulated" in self._simulation

    def _recorded_once(self, name: str, function: FunctionType) -> Callable[..., Any]:
        # Reading a function twice gives the same object.
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
            if record._is_of_the_backend(sys._getframe(1)):
                record.note(dotted, "rely")
            value = super().__getattribute__(name)
            return record._recorded_once(dotted, value) if isinstance(value, FunctionType) else value

    return Watched
