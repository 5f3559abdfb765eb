"""Whether a file or a folder is this user's alone, so that what lies there can be believed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_ROOT = 0
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def find_fault(path: Path) -> str | None:
    """Return why another user can have made the file at ``path``, a real path; None if that is impossible.

    The path and each folder above it belong to root or to this user. Others may write only to sticky folders, in which
    only the owner replaces a file. Raises ``OSError`` where there is nothing at ``path``.
    """
    return find_own_fault(path) or next(filter(None, map(_fault_of_parent, path.parents)), None)


def find_own_fault(path: Path) -> str | None:
    """Do what :func:`find_fault` does, for ``path`` alone; a link is at fault, whatever it leads to."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return f"{path} is a symbolic link to {os.readlink(path)}"
    if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        return f"{path} is neither a file nor a folder"
    return _fault(path, found, trusted={_ROOT, os.geteuid()})


def _fault_of_parent(folder: Path) -> str | None:
    # Who owns "/" is root, also in a container that calls root's files nobody's.
    return _fault(folder, folder.lstat(), trusted={_ROOT, os.geteuid(), os.lstat("/").st_uid})


def _fault(path: Path, found: os.stat_result, trusted: set[int]) -> str | None:
    if found.st_uid not in trusted:
        return f"{path} belongs to user {found.st_uid}, and this process is user {os.geteuid()}"
    sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    if found.st_mode & _WRITABLE_BY_OTHERS and not sticky:
        return f"{path} can be written by others (mode {stat.S_IMODE(found.st_mode):o})"
    return None
