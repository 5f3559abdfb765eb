"""The C++ compiler: which one, and what tells it from another."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from northbridge_cpu_sim.errors import BuildError

_NAMES = ("c++", "g++", "clang++")


@dataclass(frozen=True)
class Compiler:
    """A compiler as a shell calls it: ``/usr/bin/c++``, or ``ccache g++`` if ``CXX`` says so."""

    command: str

    def identity(self) -> list[str]:
        """Return what changes when another compiler, or version of it, stands behind the command.

        File, size and time of change stand for the version: to ask the compiler itself would cost
        every start a process.
        """
        programs = (shutil.which(word) for word in shlex.split(self.command))
        files = [Path(program).resolve() for program in programs if program]
        return [f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]


def find_compiler(environ: Mapping[str, str] | None = None) -> Compiler:
    """Return the compiler that ``CXX`` names, or else the first of c++, g++, clang++ on ``PATH``.

    Raises :class:`BuildError` if there is none.
    """
    source = os.environ if environ is None else environ
    chosen = source.get("CXX", "").strip()
    if chosen:
        wanted = shlex.split(chosen)[0]
        if not shutil.which(wanted, path=source.get("PATH")):
            raise BuildError(
                f"CXX={chosen!r} asks for the C++ compiler {wanted!r}, which is not on PATH: install it, or unset CXX"
            )
        return Compiler(chosen)
    for name in _NAMES:
        if program := shutil.which(name, path=source.get("PATH")):
            return Compiler(shlex.quote(program))
    raise BuildError(
        "the simulated chip is compiled on first use, and there is no C++ compiler "
        f"({', '.join(_NAMES)}) on PATH: apt install g++ (Fedora: dnf install gcc-c++), or set CXX"
    )
