"""A vendor's wheel, read as source: nothing of it is installed, imported or run."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path, PurePosixPath

_EXTENSION = re.compile(r"([^/.]+)(\.[^/]+)?\.(so|pyd)$")


def download(requirement: str, folder: Path) -> Path:
    """Let pip download the wheel of ``requirement``, such as ``torch-acme==2.1``, without dependencies, to ``folder``.

    Raises :class:`WheelError`.
    """
    options = ("--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--quiet")
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), "--", requirement]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    found = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or not found:
        said = " ".join(done.stdout.strip().splitlines()[-1:])
        raise WheelError(f"pip cannot download {requirement!r}: {said}. Fix: give the path of a wheel")
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
            self._archive = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile) as error:
            raise WheelError(f"{str(path)!r} is not a wheel: {error}. Fix: give a .whl") from error
        self._files = [each.filename for each in self._archive.infolist() if not each.is_dir()]
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
        """Return the source of a module."""
        return self._archive.read(self.modules[module]).decode(errors="replace")

    def _tree(self, module: str) -> ast.Module:
        """Return the syntax tree of a module. Raises :class:`UnreadableError`."""
        try:
            return ast.parse(self.text(module))
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the last: nested too deeply
            version = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
            raise UnreadableError(f"{self.modules[module]} is not source for {version}") from error

    def naming(self, word: str) -> Iterator[str]:
        """Yield the files that contain ``word``: modules first, then compiled ones."""
        whole = rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_])"
        in_text, in_bytes = re.compile(whole), re.compile(whole.encode())
        yield from (file for module, file in self.modules.items() if in_text.search(self.text(module)))
        compiled = (file for file in self._files if ".so" in file)
        yield from (file for file in compiled if in_bytes.search(self._archive.read(file)))
