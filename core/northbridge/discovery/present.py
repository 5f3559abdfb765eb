"""*Present*: the number of devices of this machine, found in bounded time without loading vendor software here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeGuard

from northbridge.backend import Backend
from northbridge.discovery.current import loaded
from northbridge.discovery.declared import get, is_declared
from northbridge.discovery.installed import describe, names
from northbridge.discovery.loaded import load
from northbridge.errors import DetectionError, NorthbridgeError, SoftwareMissingError
from northbridge.process_record import note
from northbridge.processes.endings import describe_error
from northbridge.processes.question import DetectedDevices, ask, describe_timeout, longest, remember
from northbridge.settings import CoreSettings

_hanging: dict[str, threading.Thread] = {}  # or done by now


def available() -> dict[str, int]:
    """Count the devices of each backend, and leave out backends without devices; simulated devices count.

    Loads no vendor software in this process. ``northbridge.record()`` says why a backend is missing from the result.
    """
    counts: dict[str, int] = {}
    for name in names():
        try:
            count = detect(get(name))
        except NorthbridgeError as error:
            note(name, "not available", str(error), problem=True)
            continue
        if count > 0:
            counts[name] = count
        else:
            note(name, "not available", "no hardware is present")
    return counts


def detect(backend: Backend) -> int:
    """Count the devices of ``backend``: by its bridge, or by its software.

    If this process has not loaded the software, a child process loads it and counts. Raises :class:`DetectionError` if
    that raises, or exceeds the limit.
    """
    count = _call(backend, lambda: _count(backend))
    if count is None:
        count = count_in_child(backend)
        _call(backend, lambda: backend.bridge.check_count(count))
    return count


def _call(backend: Backend, call: Callable[[], object]) -> int | None:
    """Return the result of ``call``, a count or None; turn its exceptions into errors of Northbridge.

    ``call`` runs a vendor's code in this process. A thread runs it, because it must not block ``Trainer()``. While it
    hangs, it is not called again.
    """
    name, limit = backend.name, CoreSettings.read().detect_timeout
    outcome: list[object] = []

    def ask() -> None:
        try:
            outcome.append(call())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            outcome.append(error)

    if name not in _hanging or not _hanging[name].is_alive():
        thread = threading.Thread(target=ask, name=f"detect {name}", daemon=True)
        thread.start()
        thread.join(limit)
        _hanging[name] = thread
    if not outcome:
        spent = describe_timeout(limit, name=name)
        raise DetectionError(f"{describe(name)}: detect() {spent}", backend=name, timed_out=True)
    (found,) = outcome
    if isinstance(found, NorthbridgeError):
        raise found
    if found is None or _is_count(found):
        return found
    happened = (
        f"raised {describe_error(found)}" if isinstance(found, BaseException) else f"returned {found!r}, not a count"
    )
    raise DetectionError(
        f"{describe(name)}: detect() {happened}. Fix: upgrade it, or set NORTHBRIDGE_DISABLE={name}",
        backend=name,
    ) from (found if isinstance(found, BaseException) else None)


def _count(backend: Backend) -> object:
    """Count the devices in this process; return None if a child has to."""
    bridge, running = backend.bridge, loaded()
    count: object = bridge.detect()
    if count is None:
        if bridge.missing() is not None:
            count = 0
        else:
            bridge.check_environment()
            if running is not None and running.name == backend.name:
                count = running.device.count()
    if _is_count(count):
        bridge.check_count(count)
    return count


def _is_count(found: object) -> TypeGuard[int]:
    return isinstance(found, int) and not isinstance(found, bool) and found >= 0


def count_in_child(backend: Backend) -> int:
    """Count the devices that a child process sees after loading ``backend``; one child per process tree.

    Raises :class:`DetectionError` if the child crashes, cannot load the backend, or outlasts the limit.
    """
    return _ask_for_devices(backend.name)["devices"]


def missing_software(backend: Backend) -> str | None:
    """Return a child's message that the software of ``backend`` is not installed; None if it is, or the child fails."""
    with suppress(DetectionError):
        return _ask_for_devices(backend.name).get("missing")
    return None


def _ask_for_devices(name: str) -> DetectedDevices:
    return ask(name, count_devices, who=describe, key=name, limit=CoreSettings.read().detect_timeout)


def count_devices(name: str) -> DetectedDevices:
    """Count the devices that this process, the child, sees."""
    try:
        return {"devices": load(get(name)).device.count()}
    except SoftwareMissingError as error:
        return {"devices": 0, "missing": str(error)}


def candidate(name: str) -> DetectedDevices:
    """Examine backend ``name``, importing its plugin in a child process.

    The user has not asked for the plugin, so its faults must not reach this process. An imported plugin is examined
    here. Raises the errors of :func:`northbridge.get`, or :class:`DetectionError`.
    """
    if is_declared(name):
        return look(name)
    # The child may start a child of its own, which has a second try.
    limit = longest(CoreSettings.read().detect_timeout)
    found = ask(name, look, who=describe, key=f"{name} as a candidate", limit=limit, again=False)
    if found["devices"] > 0:
        remember(name, {"devices": found["devices"]})  # the chosen backend is counted next
    return found


def look(name: str) -> DetectedDevices:
    """Examine the backend in this process; do not count its devices if ``auto`` cannot choose it."""
    backend = get(name)
    simulated, auto = backend.capabilities.simulated, backend.capabilities.auto
    return {"devices": detect(backend) if auto and not simulated else 0, "simulated": simulated, "auto": auto}
