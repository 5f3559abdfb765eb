"""*Present*: how many devices this machine has, within a bounded time, with no vendor software loaded here."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TypeGuard

from northbridge.backend import Backend
from northbridge.bridge import is_installed
from northbridge.discovery.declared import get, is_declared
from northbridge.discovery.installed import describe, names
from northbridge.discovery.loaded import load
from northbridge.errors import DetectionError, NorthbridgeError, SoftwareMissingError
from northbridge.process_record import note
from northbridge.processes.endings import describe_error
from northbridge.processes.question import SILENCE, DetectedDevices, ask, remember
from northbridge.settings import CoreSettings

_hanging: dict[str, threading.Thread] = {}  # or done by now


def available() -> dict[str, int]:
    """Return how many devices each backend has here, without backends that have none; simulated devices count.

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
    """Return how many devices ``backend`` has here: its bridge says so, or a child process that loads its software.

    Raises :class:`DetectionError` where that raises, or outlasts the limit.

    A vendor's own ``detect()`` runs in this process and must not hold up ``Trainer()``, so a thread waits for it. One
    that hangs is not asked again while it does.
    """
    name, limit = backend.name, CoreSettings.read().detect_timeout
    outcome: list[object] = []

    def ask() -> None:
        try:
            outcome.append(_count(backend))
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            outcome.append(error)

    if name not in _hanging or not _hanging[name].is_alive():
        thread = threading.Thread(target=ask, name=f"detect {name}", daemon=True)
        thread.start()
        thread.join(limit + 1.0)
        _hanging[name] = thread
    if not outcome:
        raise DetectionError(f"{describe(name)}: detect() {SILENCE.format(limit=limit, name=name)}", backend=name)
    (found,) = outcome
    if isinstance(found, NorthbridgeError):
        raise found
    if _is_count(found):
        return found
    happened = (
        f"raised {describe_error(found)}" if isinstance(found, BaseException) else f"returned {found!r}, not a count"
    )
    raise DetectionError(
        f"{describe(name)}: detect() {happened}. Fix: upgrade it, or set NORTHBRIDGE_DISABLE={name}",
        backend=name,
    ) from (found if isinstance(found, BaseException) else None)


def _count(backend: Backend) -> object:
    bridge = backend.bridge
    count: object = bridge.detect()
    if count is None:
        if bridge.package is not None and not is_installed(bridge.package):
            count = 0
        else:
            bridge.check_environment()
            count = count_in_child(backend)
    if _is_count(count):
        bridge.check_count(count)
    return count


def _is_count(found: object) -> TypeGuard[int]:
    return isinstance(found, int) and not isinstance(found, bool) and found >= 0


def count_in_child(backend: Backend) -> int:
    """Return how many devices a child process sees once it has loaded ``backend``; asked once per process tree.

    Raises :class:`DetectionError` if the child crashes, cannot load the backend, or outlasts the limit.
    """
    return _ask_for_devices(backend.name)["devices"]


def missing_software(backend: Backend) -> str | None:
    """Return what a child says of ``backend`` where its software is not installed; None where it is, or fails."""
    with suppress(DetectionError):
        return _ask_for_devices(backend.name).get("missing")
    return None


def _ask_for_devices(name: str) -> DetectedDevices:
    return ask(name, count_devices, who=describe(name), key=name, limit=CoreSettings.read().detect_timeout)


def count_devices(name: str) -> DetectedDevices:
    """Return how many devices this process, the child, finds."""
    try:
        return {"devices": load(get(name)).device.count()}
    except SoftwareMissingError as error:
        return {"devices": 0, "missing": str(error)}


def candidate(name: str) -> DetectedDevices:
    """Return what there is to know of backend ``name``, importing its plugin in a child process.

    The plugin was not asked for, so that its faults must not reach this process. One that is imported
    already is asked here. Raises what :func:`northbridge.get` raises, or :class:`DetectionError`.
    """
    if is_declared(name):
        return look(name)
    # The child may ask a child of its own, which has the whole of the time that detection has, and a start.
    limit = 2 * CoreSettings.read().detect_timeout + 5.0
    found = ask(name, look, who=describe(name), key=f"{name} as a candidate", limit=limit)
    if found["devices"] > 0:
        remember(name, {"devices": found["devices"]})  # the one that is chosen is asked next
    return found


def look(name: str) -> DetectedDevices:
    """Return what this process finds out; it counts no devices where ``auto`` could not choose the backend anyway."""
    backend = get(name)
    simulated, auto = backend.capabilities.simulated, backend.capabilities.auto
    return {"devices": detect(backend) if auto and not simulated else 0, "simulated": simulated, "auto": auto}
