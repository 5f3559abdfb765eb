"""A vendor's wheel, unpacked and read as source by griffe: nothing of it is installed, imported or run."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from functools import cached_property
from inspect import Signature
from pathlib import Path

from griffe import (
    Alias,
    Attribute,
    Class,
    ExprAttribute,
    ExprName,
    Function,
    GriffeLoader,
    LoadingError,
    Module,
    Object,
)

from northbridge.contract.check import NotThereError
from northbridge.contract.signature import parse

_TRANSPARENT = {"staticmethod", "classmethod", "property", "contextmanager", "cache", "lru_cache", "no_grad", "wraps"}
"""Decorators that leave a function's parameters as they are."""


class WheelError(Exception):
    """A wheel cannot be had, or read."""


class UnreadableError(LookupError):
    """The name, or what it stands for, cannot be read in source; the text is the reason."""


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


class Wheel:
    """The names of one wheel.

    ``torch.acme`` is the module that the wheel registers with torch for that device type, unless it is torch's own.
    Raises :class:`WheelError` if the file ``path`` is not a wheel.
    """

    def __init__(self, path: Path, folder: Path, device_type: str) -> None:
        """Unpack the wheel into ``folder``."""
        try:
            with zipfile.ZipFile(path) as archive:
                archive.extractall(folder)
        except (OSError, zipfile.BadZipFile) as error:
            raise WheelError(f"{str(path)!r} is not a wheel: {error}. Fix: give a .whl") from error
        self.name = path.name
        self._folder, self._type = folder, device_type
        self._loader = GriffeLoader(search_paths=[folder], allow_inspection=False)
        for package in sorted({each.relative_to(folder).parts[0] for each in folder.glob("*/**/*.py")}):
            try:
                self._loader.load(package, try_relative_path=False)
            except LoadingError:  # a folder of data, or one whose first file is not source
                continue
        self._loader.resolve_aliases(implicit=True, external=False)  # for `from module import *`

    def look_up(self, name: str) -> Object:
        """Return what is called ``name``. Raises NotThereError and UnreadableError."""
        device, parts = f"torch.{self._type}", name.split(".")
        if f"{name}.".startswith(f"{device}.") and not self.has_package(device):
            if self._registered is None:
                raise UnreadableError(f"no module here registers {device} with torch")
            parts = [*self._registered.split("."), *parts[2:]]
        first, *parts = parts
        if first not in self._loader.modules_collection:
            raise self._unread(Path(first)) or UnreadableError(f"{first} is not in this wheel")
        found: Object = self._loader.modules_collection[first]
        for part in parts:
            found = self._member(found, part)
        return found

    def has_package(self, name: str) -> bool:
        """Return True if the wheel has a file for the module or the package ``name``."""
        place = self._folder.joinpath(*name.split("."))
        return place.is_dir() or place.with_suffix(".py").exists()

    def place(self, found: Object) -> str:
        """Return the file in which ``found`` is defined, and the line."""
        file = found.filepath if isinstance(found.filepath, Path) else found.filepath[0]
        return f"{file.relative_to(self._folder)}{f':{found.lineno}' if found.lineno and not found.is_module else ''}"

    def signature(self, found: Object) -> Signature:
        """Return the signature of a function, or of a class's constructor. Raises UnreadableError."""
        if isinstance(found, Class):
            found = self._constructor(found)
        if not isinstance(found, Function):
            raise UnreadableError("it is made at run time")
        names = {each.callable_path.rpartition(".")[2]: str(each.value) for each in found.decorators}
        if unknown := [text for name, text in names.items() if name not in _TRANSPARENT]:
            raise UnreadableError(f"it is decorated by {unknown[0]}")
        return parse(found.signature(name="", return_type=True))

    def naming(self, word: str) -> Iterator[str]:
        """Yield the files that contain ``word``: modules first, then compiled ones."""
        whole = re.compile(rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_])".encode())
        files = [*sorted(self._folder.rglob("*.py")), *sorted(self._folder.rglob("*.so*"))]
        yield from (str(file.relative_to(self._folder)) for file in files if whole.search(file.read_bytes()))

    @cached_property
    def _registered(self) -> str | None:
        call = re.compile(rf"_register_device_module\(\s*['\"]{self._type}['\"]\s*,\s*([\w.]+)")
        texts = (file.read_text(errors="replace") for file in sorted(self._folder.rglob("*.py")))
        return next((found[1] for text in texts if (found := call.search(text))), None)

    def _member(self, owner: Object, part: str) -> Object:
        if part in owner.members:
            return self._stands_for(owner.members[part])
        if isinstance(owner, Class):
            return self._of_bases(owner, part)
        if not isinstance(owner, Module):
            raise UnreadableError(f"{part!r} belongs to an object that is made at run time")
        if unread := self._unread(Path(*owner.path.split("."), part)):
            raise unread
        if "__getattr__" in owner.members:
            raise UnreadableError(f"{owner.path} makes names at run time")
        raise NotThereError(f"{owner.path} has no {part!r}")

    def _of_bases(self, owner: Class, part: str) -> Object:
        unknown = ""
        for base in owner.bases:
            try:
                return self._member(self.look_up(base if isinstance(base, str) else base.canonical_path), part)
            except NotThereError:
                continue
            except UnreadableError as error:
                unknown = unknown or f"its base {base} is not readable: {error}"
        if unknown:
            raise UnreadableError(unknown)
        raise NotThereError(f"{owner.name} has no {part!r}")

    def _constructor(self, found: Class) -> Object:
        for name in ("__init__", "__new__"):
            try:
                return self._member(found, name)
            except NotThereError:
                continue
        raise UnreadableError("it has no constructor of its own")

    def _stands_for(self, found: Object | Alias) -> Object:
        if isinstance(found, Alias):
            return self.look_up(found.target_path)
        value = found.value if isinstance(found, Attribute) else None
        try:
            return self.look_up(value.canonical_path) if isinstance(value, ExprName | ExprAttribute) else found
        except NotThereError:  # a builtin, or a name of a function's
            return found

    def _unread(self, path: Path) -> UnreadableError | None:
        place = self._folder / path
        if [*place.parent.glob(f"{path.name}.*so"), *place.parent.glob(f"{path.name}.*pyd")]:
            return UnreadableError(f"{'.'.join(path.parts)} is compiled")
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if (self._folder / file).exists():
                return UnreadableError(f"{file} is not source for Python {sys.version_info[0]}.{sys.version_info[1]}")
        return None
