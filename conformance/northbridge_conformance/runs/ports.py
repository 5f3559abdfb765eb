"""Ports at which ranks meet, reserved until they do."""

from __future__ import annotations

import atexit
import socket

MOST_HELD = 64
"""The number of ports that this process holds: far more than its concurrent runs, and few open files."""

_held: list[socket.socket] = []


def reserve_port() -> int:
    """Return a loopback port on which a rank can listen, and which the system gives to no other process.

    A port that was free a moment ago is not enough: rank 0 needs seconds to import torch before it listens, and
    meanwhile the system may give this port to any process that asks for an arbitrary one. So it stays bound, with
    SO_REUSEADDR and without listening. Rank 0 binds it by its number, as torch does; a process that asks for an
    arbitrary port gets another.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _held.append(holder)
    _let_go(MOST_HELD)
    return int(holder.getsockname()[1])


def _let_go(most: int) -> None:
    """Close the oldest ports until at most ``most`` are held."""
    while len(_held) > most:
        _held.pop(0).close()


atexit.register(_let_go, 0)
