"""The entry point of a process that forks: :mod:`tests.forks.server`."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping

from tests.forks.server import serve


def main() -> None:
    """Serve the socket whose file descriptor is the first argument; the others are modules to import."""
    serve(socket.socket(fileno=_apart(int(sys.argv[1]))), sys.argv[2:], _take_up)


def _apart(file: int) -> int:
    """Return ``file``, or if it is the standard input, which forks replace, another number for it."""
    if file:
        return file
    apart = os.dup(file)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), file)
    return apart


def _take_up(requests: int, environ: Mapping[str, str], imported: tuple[str, ...]) -> None:
    from tests.forks.processes import take_up  # few forks fork: the others are to find nothing of it imported

    take_up(requests, environ, imported)


if __name__ == "__main__":
    main()
