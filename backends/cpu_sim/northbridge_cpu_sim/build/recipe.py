"""How a chip is compiled: its sources and flags, the compiler, and a key that differs if the result would differ."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from northbridge_cpu_sim.errors import BuildError

if TYPE_CHECKING:
    from northbridge_cpu_sim.simulation.simulated_device import SimulatedDevice

_COMPILERS = ("c++", "g++", "clang++")

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


@dataclass(frozen=True)
class Compiler:
    """A compiler as a shell calls it: ``/usr/bin/c++``, or ``ccache g++`` if ``CXX`` says so."""

    command: str

    def identity(self) -> list[str]:
        """Return facts that change with the compiler, its version or its flags.

        File, size and modification time stand for the version: running the compiler would start a process at every
        import.
        """
        return [_identify(word) for word in _split(self.command)]


def find_compiler(environ: Mapping[str, str] | None = None) -> Compiler:
    """Find the compiler that ``CXX`` names, or else the first of c++, g++, clang++ on ``PATH``.

    Raises :class:`BuildError` if there is none.
    """
    source = os.environ if environ is None else environ
    chosen = source.get("CXX", "").strip()
    if chosen:
        wanted = _split(chosen)[0]
        if not _find_program(wanted, source):
            raise BuildError(f"CXX={chosen!r} is not on PATH. Fix: install it, or unset CXX")
        return Compiler(chosen)
    for name in _COMPILERS:
        if program := _find_program(name, source):
            return Compiler(shlex.quote(program))
    raise BuildError(
        f"no C++ compiler ({', '.join(_COMPILERS)}) is on PATH. Fix: apt install g++ (Fedora: dnf install"
        " gcc-c++), or set CXX"
    )


def absolute_folders(path: str) -> str:
    """Return ``PATH`` without empty and relative entries, which would run programs of the working directory."""
    return os.pathsep.join(folder for folder in path.split(os.pathsep) if os.path.isabs(folder))


def _find_program(name: str, environ: Mapping[str, str]) -> str | None:
    return shutil.which(name, path=absolute_folders(environ.get("PATH", os.defpath)))


def _identify(word: str) -> str:
    program = _find_program(word, os.environ)
    if program is None:  # a flag
        return word
    file = Path(program).resolve()
    return f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}"


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise BuildError(f"CXX={command!r} cannot be split: {error}. Fix: balance its quotes") from None


def key(recipe: Recipe, compiler: Compiler) -> str:
    """Compute a name, in milliseconds, that differs if the compiled chip would differ."""
    digest = hashlib.sha256()
    for file in recipe.files():
        digest.update(f"{file.name}\0{file.stat().st_size}\0".encode())
        digest.update(file.read_bytes())
    facts = [
        *recipe.flags,
        torch.__version__,
        torch.version.git_version,
        f"C++11 ABI {torch.compiled_with_cxx11_abi()}",
        sysconfig.get_config_var("SOABI"),
        *compiler.identity(),
        platform.machine(),
        # Machines that share a home folder may differ in their C library.
        os.confstr("CS_GNU_LIBC_VERSION") if platform.system() == "Linux" else None,
    ]
    digest.update("\0".join(map(str, facts)).encode())
    return digest.hexdigest()[:32]
