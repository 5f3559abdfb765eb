"""The C++ compiler: its choice, and its identity."""

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
    for name in _NAMES:
        if program := _find_program(name, source):
            return Compiler(shlex.quote(program))
    raise BuildError(
        f"no C++ compiler ({', '.join(_NAMES)}) is on PATH. Fix: apt install g++ (Fedora: dnf install"
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
