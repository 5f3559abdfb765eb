"""The two files of one rank, which hold its last calls alternately."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path

SUFFIX = ".flight.jsonl"

_encode = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps would create an encoder for each line


class Segments:
    """Lines of JSON, written at once; when one file is full, the other is started again.

    When :meth:`write` returns, the system has the line: neither SIGKILL nor SIGSTOP loses it.
    """

    def __init__(self, folder: Path, *, rank: int, host: str, process: int, started: float) -> None:
        host = re.sub(r"[^A-Za-z0-9_-]", "_", host)
        # With the time: in containers, hosts and processes have the same names after a restart.
        stem = f"rank-{rank}.{host}.{process}.{int(started * 1000)}"
        self._paths = [folder / f"{stem}.{turn}{SUFFIX}" for turn in (0, 1)]
        self._turn = 1
        self._file = -1

    def turn_over(self) -> None:
        """Start the other file again. Raises ``OSError``."""
        self.close()
        self._turn = 1 - self._turn
        # A new file each time: in a shared folder, the path may be a link or another user's file.
        with suppress(FileNotFoundError):
            self._paths[self._turn].unlink()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._file = os.open(self._paths[self._turn], flags, 0o644)

    def write(self, *records: dict[str, object]) -> None:
        """Write each record as a line. Raises ``OSError``."""
        data = "".join(f"{_encode(each)}\n" for each in records).encode()
        written = os.write(self._file, data)
        if written < len(data):  # the disk is full: writing the rest raises the error
            os.write(self._file, data[written:])

    def close(self) -> None:
        """Close the file if it is open."""
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)
            self._file = -1
