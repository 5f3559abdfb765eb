"""The folder of the compiled chip, and its key there."""

from __future__ import annotations

import hashlib
import os
import platform
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from northbridge_cpu_sim.build.compiler import Compiler
from northbridge_cpu_sim.build.ownership import find_fault, find_own_fault
from northbridge_cpu_sim.build.recipe import Recipe
from northbridge_cpu_sim.errors import BuildError
from northbridge_cpu_sim.settings import SimSettings

VARIABLE = SimSettings.variable("cache")


def open_folder(chosen: Path | None) -> Path:
    """Return the real path of the folder ``chosen``, or of the user's default folder; create it if it is missing.

    Its files are loaded into the process as machine code. So it raises :class:`BuildError` if another user could have
    written them.
    """
    folder = Path(os.path.realpath(chosen or _default_folder()))
    with writing(folder):
        missing = [path for path in (folder, *folder.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)
        fault = None if folder.is_dir() else f"{folder} is not a folder"
        fault = fault or find_fault(folder)
    if fault is None:
        return folder
    cure = f"set {VARIABLE} to a folder that only you can write"
    if fault.startswith(f"{folder} can be written"):
        cure = f"delete it, because others may have filled it, or {cure}"
    raise BuildError(f"cannot use the simulated chip's cache: {fault}. Fix: {cure}")


def reject_foreign(file: Path) -> None:
    """Raise :class:`BuildError` if ``file``, in the cache, is a link or may be another user's."""
    if os.path.lexists(file) and (fault := find_own_fault(file)):
        raise BuildError(f"cannot use the simulated chip's cache: {fault}. Fix: delete it")


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Convert an OSError on writing ``folder`` to a :class:`BuildError` with the fix."""
    try:
        yield
    except OSError as error:
        raise BuildError(
            f"cannot write the simulated chip's cache {folder}: {error.strerror}. Fix: make it writable,"
            f" or set {VARIABLE}"
        ) from None


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


def keep(built: Path, chip: Path) -> None:
    """Move the file ``built`` to ``chip`` atomically, with a digest of its content and the key appended."""
    with open(built, "r+b") as file:
        content = file.read()
        file.write(_seal(content, chip))
        file.flush()
        os.fsync(file.fileno())
    built.chmod(0o600)  # independent of the umask: files that others can write are rejected
    os.replace(built, chip)


def is_whole(chip: Path) -> bool:
    """Return True if ``chip`` exists with the content that was compiled; takes 3 ms for its 3 MB.

    Raises :class:`BuildError` if it may be another user's.
    """
    reject_foreign(chip)
    # A damaged file does not fail to load: it kills the process with SIGBUS or SIGSEGV.
    try:
        whole = memoryview(chip.read_bytes())
    except OSError:
        return False
    length = len(_seal(b"", chip))
    return len(whole) > length and whole[-length:] == _seal(whole[:-length], chip)


def _seal(content: bytes | memoryview, chip: Path) -> bytes:
    return hashlib.sha256(content).hexdigest().encode() + chip.stem.encode()


def _default_folder() -> Path:
    # The XDG specification says to ignore a relative path.
    root = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not root.is_absolute():
        root = Path(os.path.expanduser("~")) / ".cache"
    if not root.is_absolute():
        raise BuildError(f"no home folder for the compiled chip. Fix: set {VARIABLE}")
    return root / "northbridge" / "cpu_sim"
