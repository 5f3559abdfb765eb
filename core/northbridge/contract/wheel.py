"""A vendor's wheel, read as source: nothing of it is installed, imported or run."""

from __future__ import annotations

import ast
import os
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

from northbridge.processes.child import run
from northbridge.processes.endings import last_words
from northbridge.processes.environment import python_command

DOWNLOAD_SECONDS = 600.0
_EXTENSION = re.compile(r"([^/.]+)(\.[^/]+)?\.(so|pyd)$")
_MOST_BYTES = 2**24  # of one source file


def download(requirement: str, folder: Path) -> Path:
    """Let pip download the wheel of ``requirement``, such as ``torch-acme==2.1``, without dependencies, to ``folder``.

    Raises :class:`WheelError`.
    """
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


class Wheel:
    """The files of one wheel. Raises :class:`WheelError` if the file ``path`` is not one."""

    def __init__(self, path: Path) -> None:
        self.name: str = path.name
        try:
            self._archive = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile) as error:
            raise WheelError(f"{str(path)!r} is not a wheel: {error}. Fix: give the path of a .whl") from error
        self._files = {each.filename: each for each in self._archive.infolist() if not each.is_dir()}
        self.tree: Callable[[str], ast.Module] = cache(self._tree)

    @cached_property
    def modules(self) -> dict[str, str]:
        """The file of each module in Python, by the module's name."""
        files = [PurePosixPath(each) for each in self._files if each.endswith(".py")]
        paths = [file.parent if file.stem == "__init__" else file.with_suffix("") for file in files]
        return {".".join(path.parts): str(file) for path, file in zip(paths, files, strict=True) if path.parts}

    @cached_property
    def extensions(self) -> frozenset[str]:
        """The names that modules compiled from C or C++ can have."""
        found = ((PurePosixPath(each).parent, _EXTENSION.search(each)) for each in self._files)
        return frozenset(".".join((*folder.parts, match[1])) for folder, match in found if match)

    def is_package(self, module: str) -> bool:
        """Return True if the module ``module`` has modules in it."""
        return self.modules.get(module, "").endswith("__init__.py")

    def text(self, module: str) -> str:
        """Return the source of a module. Raises :class:`WheelError`."""
        file = self.modules[module]
        if self._files[file].file_size > _MOST_BYTES:
            raise WheelError(f"{self.name}: {file} is too large to read")
        try:
            return self._archive.read(file).decode(errors="replace")
        except (zipfile.BadZipFile, OSError, RuntimeError) as error:
            raise WheelError(f"{self.name}: {file} is damaged: {error}. Fix: download it again") from error

    def _tree(self, module: str) -> ast.Module:
        """Return the syntax tree of a module. Raises :class:`WheelError`."""
        try:
            return ast.parse(self.text(module))
        except (SyntaxError, ValueError, RecursionError) as error:
            file = self.modules[module]
            raise WheelError(f"{file} is not source for Python {sys.version_info[0]}.{sys.version_info[1]}") from error

    def naming(self, word: str) -> Iterator[str]:
        """Yield the files that contain ``word``: modules first, then compiled ones."""
        whole = rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_])"
        in_text, in_bytes = re.compile(whole), re.compile(whole.encode())
        yield from (file for module, file in self.modules.items() if in_text.search(self.text(module)))
        yield from (file for file in self._files if ".so" in file and self._contains(file, in_bytes, len(word)))

    def _contains(self, file: str, word: re.Pattern[bytes], length: int) -> bool:
        before = b""
        with self._archive.open(file) as stream:
            while block := stream.read(2**20):
                if word.search(before + block):
                    return True
                before = block[-length - 1 :]
        return False
