"""The chips that this process holds, for what Lightning does without naming an accelerator."""

from __future__ import annotations

import os

from northbridge.backend import Backend

_held: dict[str, Backend] = {}
_holder = -1


def hold(backend: Backend) -> None:
    """Take note of a chip; the accelerator has just taken a device of it."""
    global _holder
    if _holder != os.getpid():
        _held.clear()  # they are the parent's: a forked process has none of them
        _holder = os.getpid()
    _held[backend.name] = backend


def held() -> dict[str, Backend]:
    """Return the backends whose device this process holds, by their names."""
    return dict(_held) if _holder == os.getpid() else {}
