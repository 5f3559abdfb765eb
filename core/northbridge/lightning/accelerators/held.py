"""The chips that this process holds, for functions of Lightning that get no accelerator."""

from __future__ import annotations

import os

from northbridge.backend import Backend

_held: dict[str, Backend] = {}
_holder = -1


def hold(backend: Backend) -> None:
    """Note that the accelerator has just acquired a device of this chip."""
    global _holder
    if _holder != os.getpid():
        _held.clear()  # they are the parent's: a forked process holds no chip
        _holder = os.getpid()
    _held[backend.name] = backend


def held() -> dict[str, Backend]:
    """Return the backends whose device this process holds, by name."""
    return dict(_held) if _holder == os.getpid() else {}
