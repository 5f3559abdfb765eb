"""Stand-ins for a vendor's modules. Python finds them if it finds no other module of the name.

A name that the vendor has and the simulation lacks is an error that says so.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
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
        self.places: Mapping[str, Path] = simulation.stand_ins
        self.instead: Mapping[str, str] = simulation.instead
        self.chip: str = simulation.chip or backend
        self.page: str = simulation.page or f"the documentation of backend {backend!r}"

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
        if fullname == top:
            return self._stand_in(fullname) if spec is None else None
        if spec is None:
            if is_importing(fullname):
                raise NotSimulatedError(self.without(fullname), backend=self.backend)
            return None
        if isinstance(spec.loader, SourceFileLoader):
            spec.loader = _PartLoader(fullname, spec.loader.path, self)
        return spec

    def _first_name(self, fullname: str) -> str:
        """Return the first name of a part of a stand-in that has a second, as ``torch.acme``; else ""."""
        parent, _, part = fullname.rpartition(".")
        loader = getattr(getattr(sys.modules.get(parent), "__spec__", None), "loader", None)
        if isinstance(loader, _PartLoader) and loader.stand_ins is self:
            return f"{loader.name}.{part}"
        return ""

    def without(self, name: str) -> str:
        """Return the message for a ``name`` that the simulated chip does not have."""
        # Python looks for the package of an absent name first.
        meant = next((each for each in self.instead if f"{each}.".startswith(f"{name}.")), None)
        fix = "" if meant is None else f". Fix: {self.instead[meant]}"
        return f"the simulated {self.chip} has no {name}; see {self.page}{fix}"

    def _stand_in(self, fullname: str) -> ModuleSpec | None:
        where = self.places[fullname]
        folder = [str(where)] if where.is_dir() else None
        file = where / "__init__.py" if folder else where
        loader = _Loader(fullname, str(file), self)
        return spec_from_file_location(fullname, file, loader=loader, submodule_search_locations=folder)


class _PartLoader(SourceFileLoader):
    """Loads a module of a stand-in."""

    def __init__(self, name: str, file: str, stand_ins: StandIns) -> None:
        super().__init__(name, file)
        self.stand_ins = stand_ins

    def exec_module(self, module: ModuleType) -> None:
        def __getattr__(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            raise AttributeError(self.stand_ins.without(f"{module.__name__}.{name}"))

        vars(module)["__getattr__"] = __getattr__
        # `from module import name` asks for a module of the name, and so for our error, only inside a package.
        vars(module).setdefault("__path__", [])
        try:
            super().exec_module(module)
        except BaseException:
            # Python forgets the package and keeps its modules: the next import would find them, and tell another error.
            for name in [each for each in sys.modules if each.startswith(f"{module.__name__}.")]:
                del sys.modules[name]
            raise
        if hasattr(type(module), "__getattr__"):  # it has given itself a class that looks its names up
            del vars(module)["__getattr__"]


class _Loader(_PartLoader):
    """Loads a stand-in, whose errors are the simulation's."""

    def exec_module(self, module: ModuleType) -> None:
        try:
            super().exec_module(module)
        except NorthbridgeError:
            raise
        except Exception as error:
            backend = self.stand_ins.backend
            raise SimulationError(
                f"NORTHBRIDGE_SIMULATE={backend}: importing {self.path} raised {describe_error(error)}."
                " Fix: upgrade its distribution",
                backend=backend,
            ) from error
