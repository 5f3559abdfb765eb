"""The public function that loads a backend by name."""

from __future__ import annotations

from northbridge.backend import Backend
from northbridge.discovery import loaded
from northbridge.discovery.declared import get


def load(name: str) -> Backend:
    """Load the software of the backend called ``name`` and return it, so that ``torch.device(name)`` works.

    Acquires no card and needs no Lightning. Raises the errors of :func:`get`, :class:`SoftwareMissingError`,
    :class:`SoftwareLoadError`, or :class:`DeviceTypeTakenError` if this process has loaded another backend.
    """
    return loaded.load(get(name))
