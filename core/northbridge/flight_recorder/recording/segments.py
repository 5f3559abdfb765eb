"""The two files of one rank, which hold its last calls by turns."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path

SUFFIX = ".flight.jsonl"

_encode = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps would make one for every line


class Segments:
    """Lines of JSON, written at once; when one file is full, the other is begun anew.

    A line is in the system's hands when :meth:`write` returns: neither SIGKILL nor SIGSTOP takes it away.
    """

    def __init__(self, folder: Path, *, rank: int, host: str, process: int, started: float) -> None:
        host = re.sub(r"[^A-Za-z0-9_-]", "_", host)
        # The time too: in containers, hosts and processes have the same names after a restart.
        stem = f"rank-{rank}.{host}.{process}.{int(started * 1000)}"
        self._paths = [folder / f"{stem}.{turn}{SUFFIX}" for turn in (0, 1)]
        self._turn = 1
        self._file = -1

    def turn_over(self) -> None:
        """Begin the other file anew. Raises ``OSError``."""
        self.close()
        self._turn = 1 - self._turn
        # A new file each time: in a folder that others write to, a link or another's file may lie in its place.
        with suppress(FileNotFoundError):
            self._paths[self._turn].unlink()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._file = os.open(self._paths[self._turn], flags, 0o644)

    def write(self, *records: dict[str, object]) -> None:
        """Write each record as a line. Raises ``OSError``."""
        data = "".join(f"{_encode(each)}\n" for each in records).encode()
        written = os.write(self._file, data)
        if written < len(data):  # the disk is full: the rest of the line says so
            os.write(self._file, data[written:])

    def close(self) -> None:
        """Close the file that is open, if one is."""
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)
            self._file = -1
