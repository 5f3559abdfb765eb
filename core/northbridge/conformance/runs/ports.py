"""Ports at which ranks meet, which no other process gets until they do."""

from __future__ import annotations

import atexit
import socket

MOST_HELD = 64
"""How many ports this process holds at a time: far more than it has runs at once, and few open files."""

_held: list[socket.socket] = []


def reserve_port() -> int:
    """Return a port of the loopback interface for a rank, which the system gives to no other process.

    A port that was free a moment ago is not enough: some seconds pass until rank 0 has imported torch and listens, and
    meanwhile every process that asks for any port may be given this one. So it stays bound, with SO_REUSEADDR and
    without listening: rank 0, which names the port, may bind it too, as torch does, and a process that names none
    gets another.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _held.append(holder)
    _let_go(MOST_HELD)
    return int(holder.getsockname()[1])


def _let_go(most: int) -> None:
    """Close the oldest, until there are no more than ``most``."""
    while len(_held) > most:
        _held.pop(0).close()


atexit.register(_let_go, 0)
