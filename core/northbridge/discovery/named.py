"""The public functions that load a backend by its name."""

from __future__ import annotations

from northbridge.backend import Backend
from northbridge.discovery import loaded
from northbridge.discovery.declared import get


def load(name: str) -> Backend:
    """Return the backend called ``name`` after loading its software, so that ``torch.device(name)`` works.

    Takes no card and needs no Lightning. Raises what :func:`get` raises, :class:`SoftwareMissingError`,
    :class:`SoftwareLoadError`, or :class:`DeviceTypeTakenError` if this process has loaded another backend.
    """
    return loaded.load(get(name))
