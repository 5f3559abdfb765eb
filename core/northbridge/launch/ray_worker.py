"""The devices of a Ray worker: those that Ray gave it, or the first that no other worker on this machine holds.

Ray gives a worker certain devices only of the kinds that it knows, and hides the others by the vendor's variable. Of a
custom resource it counts the number alone. So each worker holds its devices until its process ends.
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import sys
import time
from typing import Any

from northbridge.backend import Backend
from northbridge.errors import DeviceBusyError, DevicesError

PATIENCE_SECONDS = 10.0
"""How long a worker waits for a device: Ray starts a worker again before the old process has ended."""

_WORKER_MODE = 1  # ray.WORKER_MODE; a driver has another
_LOOK_SECONDS = 0.1
_held: dict[tuple[int, str], list[int]] = {}  # by process and backend
_sockets: list[socket.socket] = []


def runtime_context() -> Any | None:
    """Return Ray's context of this process; None unless it is a worker that Ray started."""
    ray = sys.modules.get("ray")
    if ray is None or not hasattr(ray, "is_initialized") or not ray.is_initialized():
        return None
    context = ray.get_runtime_context()
    return context if context.worker.mode == _WORKER_MODE else None


def devices_of_worker(backend: Backend, count: int, *, at_least: int = 0) -> list[int]:
    """Hold the devices of this Ray worker until its process ends, and return their indices among its ``count``.

    They are those whose ids Ray gave it, or as many as it has of the resource with the backend's name, in any case; if
    Ray gave it fewer, ``at_least`` as many. Called when a Trainer or Fabric is built in a worker. Raises
    :class:`DeviceBusyError` if another worker holds the device, and :class:`DevicesError` for a part of a device.
    """
    key = os.getpid(), backend.name
    if not _held.get(key):
        context = runtime_context()
        ids = _ids(context)
        amount = max(_amount(backend, context), at_least)
        _held[key] = _hold_given(backend, ids, count) if ids else _hold_free(backend, amount, count)
    return _held[key]


def _ids(context: Any | None) -> list[str]:
    # torch serves one accelerator in a process, so they are of this one.
    by_kind: dict[str, list[str]] = context.get_accelerator_ids() if context else {}
    return next(filter(None, by_kind.values()), [])


def _amount(backend: Backend, context: Any | None) -> int:
    resources: dict[str, float] = context.get_assigned_resources() if context else {}
    amount = sum(each for name, each in resources.items() if name.casefold() == backend.name.casefold())
    if amount != int(amount):
        raise DevicesError(f"Ray gave this worker {amount:g} devices. Fix: ask for whole ones")
    return int(amount)


def _hold_given(backend: Backend, ids: list[str], count: int) -> list[int]:
    # Ray has hidden the other devices from this process, unless the user told it not to.
    indices = list(range(count)) if len(ids) == count else [int(each) for each in ids]
    deadline = time.monotonic() + PATIENCE_SECONDS
    for each in ids:
        while (holder := _hold(backend, f"id {each}")) is not None:
            if time.monotonic() > deadline:
                raise DeviceBusyError(
                    f"process {holder} holds device {each} of {backend.name!r}, which Ray gave this worker. Fix: end"
                    " it, or give each Ray node its own devices",
                    backend=backend.name,
                )
            time.sleep(_LOOK_SECONDS)
    return indices


def _hold_free(backend: Backend, amount: int, count: int) -> list[int]:
    found: list[int] = []
    # The nodes of a machine may see different devices under the same indices.
    word = f"{backend.name.upper()}_VISIBLE_"
    visible = sorted(each for each in os.environ.items() if each[0].startswith(word))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(found) < amount:
        holders: list[int] = []
        for index in range(count):
            if index not in found and len(found) < amount:
                holder = _hold(backend, f"index {index} of {visible}")
                if holder is None:
                    found.append(index)
                else:
                    holders.append(holder)
        if len(found) < amount and time.monotonic() > deadline:
            who = ", ".join(map(str, sorted(set(holders))))
            raise DeviceBusyError(
                f"Ray workers (process {who}) hold {len(holders)} of {count} devices of {backend.name!r}, and this one"
                f" needs {amount}. Fix: start Ray with resources={{{backend.name!r}: {count}}}",
                backend=backend.name,
            )
        if len(found) < amount:
            time.sleep(_LOOK_SECONDS)
    return sorted(found)


def _hold(backend: Backend, device: str) -> int | None:
    """Hold ``device`` until this process ends; return the process that holds it already, or None.

    The name of a socket belongs to one process, and is free when it ends, however it ends. All processes of a user in
    a container, or on a machine, have the same names.
    """
    place = (os.getuid(), os.stat("/proc/self/ns/mnt").st_ino, backend.name, device)
    name = "\0northbridge/" + hashlib.sha256(repr(place).encode()).hexdigest()
    held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        held.bind(name)
        held.listen(8)
    except OSError:
        held.close()
        return _process_behind(name)
    _sockets.append(held)
    return None


def _process_behind(name: str) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            asking.connect(name)
        except OSError:  # it ended just now, or too many ask
            return 0
        credentials = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[0])
