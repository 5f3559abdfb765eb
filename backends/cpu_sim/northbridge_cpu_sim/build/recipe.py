"""Sources of one chip, and their compilation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from northbridge_cpu_sim.errors import BuildError

if TYPE_CHECKING:
    from northbridge_cpu_sim.simulation.simulated_device import SimulatedDevice

SHARED = Path(__file__).parents[1] / "csrc"
"""The sources of every chip."""

_SUFFIXES = {".cpp", ".h"}

_WITH_PYTHON = {"csrc", "collective", "faults", "profiling"}
"""The rooms with bindings: pybind11 is as much to compile as the rest of them."""

_FLAGS = (
    "-O2",
    "-fvisibility=hidden",  # calls between files may be inlined
    "-DAT_PER_OPERATOR_HEADERS",  # torch's headers include single operators, and not all of them
    "--param=ggc-min-heapsize=4000000",  # in kB: g++ does not collect garbage, which is a tenth of its time
)

_IN_KERNEL_TABLES = {"HPU"}
"""The keys for which torch's kernel tables (``DispatchStub.h``) have a place in every build of torch."""


@dataclass(frozen=True)
class Recipe:
    """The folders with the sources, and the compiler's flags.

    A file in a later folder replaces the file of the same name in an earlier folder. Subfolders do not matter: a
    folder's files have different names.
    """

    folders: tuple[Path, ...] = (SHARED,)
    flags: tuple[str, ...] = _FLAGS

    def files(self) -> list[Path]:
        """Return sources and headers, by name."""
        chosen = {file.name: file for folder in self.folders for file in folder.rglob("*") if file.suffix in _SUFFIXES}
        return [chosen[name] for name in sorted(chosen)]

    def sources(self) -> list[Path]:
        """Return the compiled files, without the headers."""
        return [file for file in self.files() if file.suffix == ".cpp"]

    def units(self) -> list[list[Path]]:
        """Return the sources in units, each compiled as if it were one file.

        The compiler takes longer for torch's headers than for a source, and two cores compile two units at once: one
        has the rooms with bindings for Python, and the other the rest, which takes as long. So names in anonymous
        namespaces differ from file to file. The later folders' sources are a separate unit, with names of their own.
        """
        units: list[list[Path]] = [[], [], []]
        for source in sorted(self.sources()):
            if source.is_relative_to(self.folders[0]):
                units[source.parent.name not in _WITH_PYTHON].append(source)
            else:
                units[2].append(source)
        return [unit for unit in units if unit]


def recipe_for(device: SimulatedDevice, extra: Path | None) -> Recipe:
    """Choose the sources for the chip of ``device``; files in ``extra`` replace the shared ones or are added.

    Raises :class:`BuildError` if ``extra`` cannot be used.
    """
    recipe = Recipe()
    folders, flags = recipe.folders, recipe.flags
    if device.key is not None:
        flags = (*flags, f"-DCHIP_KEY={device.key}")
        if device.key in _IN_KERNEL_TABLES:
            flags = (*flags, f"-DCHIP_REGISTER_DISPATCH=REGISTER_{device.key}_DISPATCH")
    if extra is not None:
        _check(extra)
        folders = (*folders, extra)
    return Recipe(folders, flags)


def _check(extra: Path) -> None:
    if not extra.is_dir() or not any(extra.glob("*.cpp")):
        raise BuildError(f"{extra} has no C++ file for a simulated chip")
    shared = {file.name for file in SHARED.rglob("*.h")}
    for header in sorted(extra.glob("*.h")):
        if header.name in shared:
            raise BuildError(f"{header} is named as a shared header. Fix: rename it")
