"""A rank's process group: its start over the chip's library, recorded, in a store for each attempt; and its end.

A library may wait for every rank when its group is destroyed, and for ever if a rank hangs or has died. The end of the
process is in bounded time even then.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from importlib import import_module
from subprocess import Popen
from typing import TYPE_CHECKING, Any

from northbridge import flight_recorder
from northbridge.errors import CollectiveError, VariableError
from northbridge.launch import rendezvous
from northbridge.process_record import logger

if TYPE_CHECKING:
    import torch
    from torch._C._distributed_c10d import Store

    from northbridge.collective import Collective

GRACE_SECONDS = 20.0
"""Time limit for the end of a process that has failed."""

END_SECONDS = 30.0
"""Time for the ranks that a process has started as scripts to end after it."""

_failed = False


def meet(
    collective: Collective,
    *,
    rank: int,
    world_size: int,
    timeout: timedelta | None,
    device: torch.device,
    node_size: int | None = None,
    store: Store | None = None,
    library: str | None = None,
    trains_on: str | None = None,
) -> Store | None:
    """Let this rank meet the others, and return the store for :func:`start`; None for one rank.

    The strategies for several devices call it once per rank, after selecting the device and setting ``MASTER_ADDR`` and
    ``MASTER_PORT``, or with the ``store`` in which the ranks meet. The library is that of ``collective``, or
    ``library``, another of its names; a node has ``node_size`` ranks. ``trains_on`` must be equal on all ranks; None
    means the chip and its library. Raises :class:`VariableError` if a variable gives the group to another library, and
    what :func:`northbridge.launch.rendezvous.meet` raises.
    """
    name = library or collective.name
    _reject_torchcomms(name)
    flight_recorder.begin(rank, world_size)
    return rendezvous.meet(
        trains_on or f"{device.type} ({name})",
        rank=rank,
        world_size=world_size,
        timeout=timeout,
        node_size=node_size,
        store=store,
    )


def start(
    collective: Collective,
    *,
    rank: int,
    world_size: int,
    timeout: timedelta | None,
    device: torch.device,
    store: Store | None = None,
    library: str | None = None,
) -> None:
    """Start the default process group of this rank on ``collective``, or on ``library``, another of its names.

    Called after :func:`meet`, with its ``store``. Raises :class:`CollectiveError` if torch has no library of that name.
    """
    import torch.distributed

    name = library or collective.name
    ignore_doubt_about_device()
    other: dict[str, Any] = {} if name == collective.name else {"library": name}
    try:
        collective.initialize(rank=rank, world_size=world_size, timeout=timeout, device=device, store=store, **other)
    except AssertionError as error:
        known = torch.distributed.Backend.backend_list
        if name in known:
            raise
        raise CollectiveError(
            f"torch has no backend {name!r}; found {', '.join(known)}. Fix: Collective.register() it"
        ) from error


def _reject_torchcomms(library: str) -> None:
    try:
        config = import_module("torch.distributed.config")
    except ModuleNotFoundError:  # before torch 2.13
        return
    if getattr(config, "use_torchcomms", False):
        raise VariableError(
            f"TORCH_DISTRIBUTED_USE_TORCHCOMMS is set, but torchcomms has no {library!r}. Fix: unset it",
            variable="TORCH_DISTRIBUTED_USE_TORCHCOMMS",
        )


def ignore_doubt_about_device() -> None:
    """Silence torch's warning at each ``barrier()`` that ranks may share a device: each has selected its own."""
    warnings.filterwarnings("ignore", r"barrier\(\): using the device under current context", UserWarning)


def leave_at_the_end(limit: timedelta | None, launcher: Any) -> None:
    """Let this process leave its process group when it ends, and on Linux end within ``limit``, the group's timeout.

    A process that has started ranks as scripts has :data:`END_SECONDS` more. The strategies for several devices call it
    on every rank after creating its group; ``launcher`` is Lightning's.
    """
    atexit.register(_leave, limit, launcher)


def note_failure() -> None:
    """Note that the training of this process has failed: from here on, its end does not wait long for other ranks."""
    global _failed
    _failed = True


def has_failed() -> bool:
    """Return True if the training of this process has failed, or an error ends it."""
    # Python keeps the last uncaught error there.
    return _failed or getattr(sys, "last_value", None) is not None


def resume(pids: Iterable[int]) -> None:
    """Continue stopped ranks among ``pids``: only SIGKILL could end them while they are stopped."""
    for pid in pids if os.name == "posix" else ():
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGCONT)


def _leave(limit: timedelta | None, launcher: Any) -> None:
    import torch.distributed

    if not torch.distributed.is_initialized():
        return
    scripts = [each for each in getattr(launcher, "procs", ()) if isinstance(each, Popen)]
    if has_failed():
        resume(each.pid for each in scripts if each.poll() is None)
        _end_within(GRACE_SECONDS)
    elif torch.distributed.get_world_size() > 1:
        from torch.distributed.constants import default_pg_timeout

        seconds = (limit or default_pg_timeout).total_seconds()
        _end_within(seconds + END_SECONDS if scripts else seconds)
    # A library may hold threads and sockets that fail in the interpreter's teardown.
    torch.distributed.destroy_process_group()


def _end_within(seconds: float) -> None:
    """Let Linux end this process after ``seconds``, with exit code 1; another call replaces the limit.

    The timer is C's, because the library may wait while it holds the GIL, or after Python's threads have ended. It is
    not that of faulthandler or ``signal.alarm``: a process has one of each, which may be the user's.
    """
    if sys.platform != "linux":
        return
    seconds = max(seconds, 0.001)  # zero would stop the timer
    libc = ctypes.CDLL(None, use_errno=True)
    timers = libc if hasattr(libc, "timer_create") else ctypes.CDLL("librt.so.1", use_errno=True)  # glibc before 2.34
    event = _Event(value=1, kind=_IN_A_THREAD, function=ctypes.cast(libc._exit, ctypes.c_void_p))
    times = _Times(seconds=int(seconds), nanoseconds=int(seconds % 1 * 1e9))
    made = _timer.value is not None or not timers.timer_create(
        time.CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(_timer)
    )
    if not made or timers.timer_settime(_timer, 0, ctypes.byref(times), None):
        reason = os.strerror(ctypes.get_errno())
        logger.warning("no timer (%s): if another rank hangs, this process may not end", reason)


_IN_A_THREAD = 2
"""SIGEV_THREAD of Linux's signal.h."""


class _Event(ctypes.Structure):
    """Linux's ``struct sigevent``: the function that is called, and its argument."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("kind", ctypes.c_int),
        ("function", ctypes.c_void_p),
        ("rest", ctypes.c_byte * 40),
    )


class _Times(ctypes.Structure):
    """``struct itimerspec``: a timer that goes off once."""

    _fields_ = tuple((name, ctypes.c_long) for name in ("again", "again_ns", "seconds", "nanoseconds"))


_timer = ctypes.c_void_p()
