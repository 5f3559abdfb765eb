"""A port of this machine that nobody listens on."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return one; somebody may take it before it is used, which has not been seen to happen."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
