"""A vendor's wheel, read as source: nothing of it is installed, imported or run."""

from __future__ import annotations

import ast
import lzma
import os
import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

from packaging.requirements import InvalidRequirement, Requirement

from northbridge.processes.child import run
from northbridge.processes.endings import last_words
from northbridge.processes.environment import python_command
from northbridge.untrusted.files import reject_special

DOWNLOAD_SECONDS = 600.0
_EXTENSION = re.compile(r"([^/.]+)(\.[^/]+)?\.(so|pyd)$")
_MOST_FILES = 100_000
_MOST_BYTES = 2**22  # of one source file
_MOST_PARSED = 2**24  # bytes of source in all: a syntax tree has about a hundred times their memory
_DAMAGES = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(OSError, EOFError, ValueError, OverflowError),
    *(RuntimeError, NotImplementedError),  # encrypted, or compressed in a way that Python does not know
)


def download(requirement: str, folder: Path) -> Path:
    """Let pip download the wheel of ``requirement``, such as ``torch-acme==2.1``, without dependencies, to ``folder``.

    Raises :class:`WheelError`, and lets pip see neither an address nor a path, of which it may run a build.
    """
    try:
        is_named = Requirement(requirement).url is None and not Path(requirement).exists()
    except (InvalidRequirement, OSError, ValueError):
        is_named = False
    if not is_named:
        raise WheelError(
            f"{requirement!r} is neither a .whl nor a requirement such as torch-acme==2.1. Fix: give one of them"
        )
    options = ("--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--quiet")
    # `python -m pip` would import from the working directory.
    pip = python_command("import runpy; runpy.run_module('pip', run_name='__main__')")
    command = [*pip, "download", *options, "--dest", str(folder), "--", requirement]
    code, said = run(command, limit_s=DOWNLOAD_SECONDS, environ=dict(os.environ))
    found = sorted(folder.glob("*.whl"))
    if code != 0 or not found:
        raise WheelError(
            f"pip cannot download {requirement!r}: {last_words(said) or 'no answer in time'}. Fix: give the path of a"
            " wheel"
        )
    return found[0]


class WheelError(Exception):
    """A wheel cannot be had, or read."""


class UnreadableError(LookupError):
    """The name, or what it stands for, cannot be read in source; the text is the reason."""


class Wheel:
    """The files of one wheel. Raises :class:`WheelError` if the file ``path`` is not one."""

    def __init__(self, path: Path) -> None:
        self.name: str = path.name
        try:
            reject_special(path)
            self._archive = zipfile.ZipFile(path)
        except _DAMAGES as error:
            raise WheelError(f"{str(path)!r} is not a wheel: {error}. Fix: give a .whl") from error
        everything = self._archive.infolist()
        if len(everything) > _MOST_FILES:
            raise WheelError(f"{self.name} has {len(everything)} files, more than {_MOST_FILES}. Fix: give another one")
        self._files = {each.filename: each for each in everything if not each.is_dir()}
        self._parsed = 0
        self.tree: Callable[[str], ast.Module] = cache(self._tree)

    @cached_property
    def modules(self) -> dict[str, str]:
        """The file of each module in Python, by the module's name."""
        files = [(each, PurePosixPath(each)) for each in self._files if each.endswith(".py")]
        paths = [(each, path.parent if path.stem == "__init__" else path.with_suffix("")) for each, path in files]
        return {".".join(path.parts): each for each, path in paths if path.parts}

    @cached_property
    def extensions(self) -> frozenset[str]:
        """The names that modules compiled from C or C++ can have."""
        found = ((PurePosixPath(each).parent, _EXTENSION.search(each)) for each in self._files)
        return frozenset(".".join((*folder.parts, match[1])) for folder, match in found if match)

    def is_package(self, module: str) -> bool:
        """Return True if the module ``module`` has modules in it."""
        return self.modules.get(module, "").endswith("__init__.py")

    def text(self, module: str) -> str:
        """Return the source of a module. Raises :class:`WheelError` and :class:`UnreadableError`."""
        file = self.modules[module]
        if self._files[file].file_size > _MOST_BYTES:
            raise UnreadableError(f"{file} is too large to read")
        try:
            return self._archive.read(file).decode(errors="replace")
        except _DAMAGES as error:
            raise self._damaged(file, error) from error

    def _damaged(self, file: str, error: BaseException) -> WheelError:
        return WheelError(f"{self.name}: {file!r} cannot be read: {error}. Fix: download again")

    def _tree(self, module: str) -> ast.Module:
        """Return the syntax tree of a module. Raises :class:`WheelError` and :class:`UnreadableError`."""
        file, text = self.modules[module], self.text(module)
        self._parsed += len(text)
        if self._parsed > _MOST_PARSED:
            raise WheelError(
                f"{self.name} has more than {_MOST_PARSED >> 20} MiB of source to read. Fix: give another one"
            )
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the last: nested too deeply
            raise UnreadableError(
                f"{file} is not source for Python {sys.version_info[0]}.{sys.version_info[1]}"
            ) from error

    def naming(self, word: str) -> Iterator[str]:
        """Yield the files that contain ``word``: modules first, then compiled ones."""
        whole = rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_])"
        in_text, in_bytes = re.compile(whole), re.compile(whole.encode())
        yield from (file for module, file in self.modules.items() if in_text.search(self.text(module)))
        yield from (file for file in self._files if ".so" in file and self._contains(file, in_bytes, len(word)))

    def _contains(self, file: str, word: re.Pattern[bytes], length: int) -> bool:
        before = b""
        try:
            with self._archive.open(file) as stream:
                while block := stream.read(2**20):
                    if word.search(before + block):
                        return True
                    before = block[-length - 1 :]
        except _DAMAGES as error:
            raise self._damaged(file, error) from error
        return False
