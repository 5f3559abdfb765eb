"""The folder of the compiled chip: who can write there, and whether a file there is whole."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from northbridge_cpu_sim.errors import BuildError
from northbridge_cpu_sim.settings import SimSettings

VARIABLE = SimSettings.variable("cache")

_ROOT = 0
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


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


def find_fault(path: Path) -> str | None:
    """Return the reason why another user may have made the file at ``path``, a real path; None if none can.

    The path and each folder above it must belong to root or to this user. Others may write only to sticky folders, in
    which only the owner replaces a file. Raises ``OSError`` if ``path`` does not exist.
    """
    return find_own_fault(path) or next(filter(None, map(_fault_of_parent, path.parents)), None)


def find_own_fault(path: Path) -> str | None:
    """Return the fault of ``path`` alone, as :func:`find_fault` does; a link is always a fault."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return f"{path} is a symbolic link to {os.readlink(path)}"
    if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        return f"{path} is neither a file nor a folder"
    return _fault(path, found, trusted={_ROOT, os.geteuid()})


def _fault_of_parent(folder: Path) -> str | None:
    # The owner of "/" is root, even in a container that maps root's files to another user.
    return _fault(folder, folder.lstat(), trusted={_ROOT, os.geteuid(), os.lstat("/").st_uid})


def _fault(path: Path, found: os.stat_result, trusted: set[int]) -> str | None:
    if found.st_uid not in trusted:
        return f"{path} belongs to user {found.st_uid}, and this process is user {os.geteuid()}"
    sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    if found.st_mode & _WRITABLE_BY_OTHERS and not sticky:
        return f"{path} can be written by others (mode {stat.S_IMODE(found.st_mode):o})"
    return None
