"""Stand-ins for a vendor's modules. Python finds them if it finds no other module of the name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

from northbridge.errors import NorthbridgeError, SimulationError
from northbridge.processes.endings import describe_error


class StandIns(MetaPathFinder):
    """Finds the stand-ins of backend ``backend``; ``places`` maps names to files, or to the folders of packages."""

    def __init__(self, backend: str, places: Mapping[str, Path]) -> None:
        self.backend = backend
        self.places = places

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the interface's, as the next
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        where = self.places.get(fullname)
        if where is None:
            return None
        folder = [str(where)] if where.is_dir() else None
        file = where / "__init__.py" if folder else where
        loader = _Loader(fullname, file, self.backend)
        return spec_from_file_location(fullname, file, loader=loader, submodule_search_locations=folder)


class _Loader(SourceFileLoader):
    def __init__(self, name: str, file: Path, backend: str) -> None:
        super().__init__(name, str(file))
        self.backend = backend

    def exec_module(self, module: ModuleType) -> None:
        try:
            super().exec_module(module)
        except NorthbridgeError:
            raise
        except Exception as error:
            raise SimulationError(
                f"NORTHBRIDGE_SIMULATE={self.backend}: importing {self.path} raised {describe_error(error)}."
                " Fix: upgrade its distribution",
                backend=self.backend,
            ) from error
