"""Stand-ins for a vendor's modules. Python finds them if it finds no other module of the name.

A name that the vendor has and the simulation lacks is an error that says so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from northbridge.autoload import is_importing
from northbridge.errors import NorthbridgeError, NotSimulatedError, SimulationError
from northbridge.processes.endings import describe_error
from northbridge.simulation import Simulation


class StandIns(MetaPathFinder):
    """Finds the stand-ins that the ``simulation`` of backend ``backend`` brings.

    It comes before Python's own finders, because it marks every module of the stand-ins.
    """

    def __init__(self, backend: str, simulation: Simulation) -> None:
        self.backend = backend
        self.places: Mapping[str, Path | str] = simulation.stand_ins
        self.instead: Mapping[str, str] = simulation.instead
        self.chip: str = simulation.chip or backend
        self.see: str = f"see {simulation.page}" if simulation.page else "a real one may have it"

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,  # noqa: ARG002 - the interface's
    ) -> ModuleSpec | None:
        top = fullname.partition(".")[0]
        if top not in self.places:
            if (name := self._first_name(fullname)) and is_importing(fullname):
                raise NotSimulatedError(self.without(name), backend=self.backend)
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is None and self._has(fullname):
            return self._stand_in(fullname)
        if fullname == top:
            return None
        if spec is None:
            if is_importing(fullname):
                raise NotSimulatedError(self.without(fullname), backend=self.backend)
            return None
        if isinstance(spec.loader, SourceFileLoader):
            spec.loader = _FileLoader(fullname, spec.loader.path, self)
        return spec

    def _first_name(self, fullname: str) -> str:
        """Return the first name of a part of a stand-in that has a second, as ``torch.acme``; else ""."""
        parent, _, part = fullname.rpartition(".")
        loader = getattr(getattr(sys.modules.get(parent), "__spec__", None), "loader", None)
        if isinstance(loader, (_FileLoader, _TableLoader)) and loader.stand_ins is self:
            return f"{loader.name}.{part}"
        return ""

    def _has(self, fullname: str) -> bool:
        """Return True for the first module of a stand-in, and for each in a table. Others are files in a folder."""
        where = self.places[fullname.partition(".")[0]]
        return fullname in self.places or (isinstance(where, str) and fullname in _table(where))

    def without(self, name: str) -> str:
        """Return the message for a ``name`` that the simulated chip does not have."""
        # Python looks for the package of an absent name first.
        meant = next((each for each in self.instead if f"{each}.".startswith(f"{name}.")), None)
        fix = "" if meant is None else f". Fix: {self.instead[meant]}"
        return f"the simulated {self.chip} has no {name}; {self.see}{fix}"

    def _stand_in(self, fullname: str) -> ModuleSpec | None:
        where = self.places[fullname.partition(".")[0]]
        if isinstance(where, str):
            table = find_spec(where)
            loader = _TableLoader(fullname, where, self)
            spec = spec_from_file_location(fullname, where if table is None else table.origin, loader=loader)
            if spec is not None:
                spec.submodule_search_locations = []  # a package, whose folder is not the table's
            return spec
        folder = [str(where)] if where.is_dir() else None
        file = where / "__init__.py" if folder else where
        loader_of_file = _FileLoader(fullname, str(file), self)
        return spec_from_file_location(fullname, file, loader=loader_of_file, submodule_search_locations=folder)

    def fill(self, module: ModuleType, execute: Callable[[ModuleType], None]) -> None:
        """Give ``module`` its names by ``execute``, and errors about others; a stand-in's own are the simulation's."""

        def __getattr__(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            raise AttributeError(self.without(f"{module.__name__}.{name}"))

        vars(module)["__getattr__"] = __getattr__
        # `from module import name` asks for a module of the name, and so for our error, only inside a package.
        vars(module).setdefault("__path__", [])
        try:
            execute(module)
        except BaseException as error:
            # Python forgets the package and keeps its modules: the next import would find them, and tell another error.
            for name in [each for each in sys.modules if each.startswith(f"{module.__name__}.")]:
                del sys.modules[name]
            is_told = isinstance(error, NorthbridgeError) or not isinstance(error, Exception)
            if is_told or module.__name__ not in self.places:
                raise
            raise SimulationError(
                f"NORTHBRIDGE_SIMULATE={self.backend}: importing {module.__file__} raised {describe_error(error)}."
                " Fix: upgrade its distribution",
                backend=self.backend,
            ) from error
        if hasattr(type(module), "__getattr__"):  # it has given itself a class that looks its names up
            del vars(module)["__getattr__"]


Names = Mapping[str, object]


def _table(where: str) -> Mapping[str, Names | Callable[[], Names]]:
    table: Mapping[str, Names | Callable[[], Names]] = import_module(where).STAND_INS
    return table


class _FileLoader(SourceFileLoader):
    def __init__(self, name: str, file: str, stand_ins: StandIns) -> None:
        super().__init__(name, file)
        self.stand_ins = stand_ins

    def exec_module(self, module: ModuleType) -> None:
        self.stand_ins.fill(module, super().exec_module)


class _TableLoader(Loader):
    """Makes a module of a stand-in from its row of the table in the module ``where``."""

    def __init__(self, name: str, where: str, stand_ins: StandIns) -> None:
        self.name = name
        self.where = where
        self.stand_ins = stand_ins

    def exec_module(self, module: ModuleType) -> None:
        self.stand_ins.fill(module, self._add_names)

    def _add_names(self, module: ModuleType) -> None:
        row = _table(self.where)[self.name]
        vars(module).update(row() if callable(row) else row)
