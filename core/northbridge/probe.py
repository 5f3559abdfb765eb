"""How many devices a machine has, within a bounded time."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from northbridge.discovery import describe, load
from northbridge.ending import describe_error
from northbridge.errors import DetectionError, NorthbridgeError, SoftwareMissingError
from northbridge.inquiry import SILENCE, Reply, ask, reply
from northbridge.settings import CoreSettings

if TYPE_CHECKING:
    from northbridge.backend import Backend

_hanging: dict[str, threading.Thread] = {}  # or done by now


def count_within_limit(backend: Backend) -> int:
    """Return ``backend.bridge.detect()``, or raise :class:`DetectionError` when it raises or outlasts the limit.

    A vendor's own ``detect()`` runs in this process and must not hold up ``Trainer()``, so a thread waits for it. One
    that hangs is not asked again while it does.
    """
    name, limit = backend.name, CoreSettings.read().detect_timeout
    outcome: list[int | BaseException] = []

    def ask() -> None:
        try:
            outcome.append(backend.bridge.detect())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            outcome.append(error)

    if name not in _hanging or not _hanging[name].is_alive():
        thread = threading.Thread(target=ask, name=f"detect {name}", daemon=True)
        thread.start()
        thread.join(limit + 1.0)
        _hanging[name] = thread
    if not outcome:
        raise DetectionError(f"{describe(name)}: its detect() {SILENCE.format(limit=limit, name=name)}", backend=name)
    (found,) = outcome
    if isinstance(found, NorthbridgeError):
        raise found
    if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
        return found
    happened = (
        f"raised {describe_error(found)}" if isinstance(found, BaseException) else f"returned {found!r}, not a count"
    )
    raise DetectionError(
        f"{describe(name)}: its detect() {happened}; upgrade the plugin, or switch it off with"
        f" NORTHBRIDGE_DISABLE={name}",
        backend=name,
    ) from (found if isinstance(found, BaseException) else None)


def count_in_child(name: str) -> int:
    """Return how many devices a child process sees once it has loaded backend ``name``; asked once per process tree.

    Raises :class:`DetectionError` if the child crashes, cannot load the backend, or outlasts the limit.
    """
    return ask(name, answer, key=name, limit=CoreSettings.read().detect_timeout)["devices"]


def missing_software(name: str) -> str | None:
    """Return what a child says of backend ``name`` where its software is not installed; None where it is, or fails."""
    with suppress(DetectionError):
        return ask(name, answer, key=name, limit=CoreSettings.read().detect_timeout).get("missing")
    return None


def answer(name: str) -> None:
    """Tell how many devices this process, the child, finds."""

    def find() -> Reply:
        try:
            return {"devices": load(name).device.count()}
        except SoftwareMissingError as error:
            return {"devices": 0, "missing": str(error)}

    reply(find)
