"""A check that a file or a folder belongs only to this user, so that its content can be trusted."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_ROOT = 0
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


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
