"""The end of a rank's process group when its process ends, in bounded time even if other ranks hang.

A library may wait for every rank when its group is destroyed, and for ever if a rank hangs or has died.
"""

from __future__ import annotations

import atexit
import faulthandler
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from subprocess import Popen
from typing import Any

GRACE_SECONDS = 20.0
"""Time limit for the end of a process that has failed."""

_failed = False


def leave_at_the_end(limit: timedelta | None, launcher: Any) -> None:
    """Let this process leave its process group when it ends, and end within ``limit``, the group's timeout.

    The strategies for several devices call it on every rank after creating its group; ``launcher`` is Lightning's.
    """
    atexit.register(_leave, limit, launcher)


def note_failure() -> None:
    """Note that the training of this process has failed: from here on, its end does not wait long for other ranks."""
    global _failed
    _failed = True


def resume(pids: Iterable[int]) -> None:
    """Continue stopped ranks among ``pids``: only SIGKILL could end them while they are stopped."""
    for pid in pids if os.name == "posix" else ():
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGCONT)


def wait_longer(seconds: float) -> None:
    """Let this process wait ``seconds`` more before it has to have ended, if it has left its process group."""
    if _kept:
        _end_within(_limit + seconds)


def _leave(limit: timedelta | None, launcher: Any) -> None:
    import torch.distributed

    if not torch.distributed.is_initialized():
        return
    # Python keeps the last uncaught error there.
    if _failed or getattr(sys, "last_value", None) is not None:
        resume(each.pid for each in getattr(launcher, "procs", ()) if isinstance(each, Popen) and each.poll() is None)
        _end_within(GRACE_SECONDS)
    elif torch.distributed.get_world_size() > 1:
        from torch.distributed.constants import default_pg_timeout

        _end_within((limit or default_pg_timeout).total_seconds())
    # A library may hold threads and sockets that fail in the interpreter's teardown.
    torch.distributed.destroy_process_group()


def _end_within(seconds: float) -> None:
    global _limit
    _limit = seconds
    # A thread in C, because the library may wait while it holds the GIL, or after Python's threads have ended.
    nowhere = open(os.devnull, "w")  # noqa: SIM115 - for the stacks; open until the process ends
    faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)
    _kept.append(nowhere)


_kept: list[object] = []
_limit = 0.0
