"""Checksums of a checkpoint's archive, which torch writes but does not compare on reading."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

LONGEST = 200
"""Limit in characters for text quoted from a damaged file."""


class _Whole:
    """A file in which ``zipfile`` can seek from the end too; torch's view of a part of a file seeks wrongly."""

    def __init__(self, file: Any) -> None:
        self._file = file
        file.seek(0, os.SEEK_END)
        self._end: int = file.tell()
        self.read, self.tell = file.read, file.tell

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        place = {os.SEEK_SET: 0, os.SEEK_CUR: int(self.tell()), os.SEEK_END: self._end}[whence] + offset
        self._file.seek(place)
        return place


def find_damage_of(path: Any) -> str:
    """Return the fault of the archive ``path``, as :func:`find_damage` does."""
    if "://" in str(path):
        return ""
    with Path(os.fspath(path)).open("rb") as file:
        return find_damage(file)


def find_damage(file: Any) -> str:
    """Return the fault of an archive, because torch does not compare checksums; empty for a good or another file."""
    try:
        if file.read(4) != b"PK\x03\x04":  # torch's former format has no checksums
            return ""
        with zipfile.ZipFile(_Whole(file)) as archive:
            has_checksums = any(part.CRC for part in archive.infolist())  # torch.serialization.set_crc32_options
            wrong = archive.testzip() if has_checksums else None
    except Exception as error:  # noqa: BLE001 - zipfile's errors, and any that a damaged offset causes
        return first_line(error)
    return f"the checksum of {_clean(wrong)} is wrong" if wrong else ""


def first_line(error: BaseException) -> str:
    """Return the error's type and the first line of its text, cleaned: a damaged file may put anything there."""
    line = _clean(str(error).partition("\n")[0])
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def _clean(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text[:LONGEST])
