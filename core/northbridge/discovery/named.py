"""The public function that loads a backend by name."""

from __future__ import annotations

from northbridge.backend import Backend
from northbridge.discovery import loaded
from northbridge.discovery.declared import get
from northbridge.discovery.installed import describe, names
from northbridge.errors import NorthbridgeError


def load(name: str) -> Backend:
    """Load the software of the backend called ``name`` and return it, so that ``torch.device(name)`` works.

    Acquires no card and needs no Lightning. Raises the errors of :func:`get`, :class:`SoftwareMissingError`,
    :class:`SoftwareLoadError`, or :class:`DeviceTypeTakenError` if this process has loaded another backend.
    """
    return loaded.load(get(name))


def say_not_loaded(name: str) -> str | None:
    """Return the reason why chip ``name`` is not loaded, and the fix; None if no backend of that name is installed."""
    if name not in names():
        return None
    try:
        loaded.reject_missing_software(get(name))
    except NorthbridgeError as error:
        return str(error)
    return f"{describe(name)} is not loaded. Fix: import northbridge; northbridge.load({name!r})"
