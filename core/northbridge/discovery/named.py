"""The public functions that load a backend by its name."""

from __future__ import annotations

from northbridge.backend import Backend
from northbridge.discovery import loaded
from northbridge.discovery.declared import get


def load(name: str) -> Backend:
    """Return the backend called ``name`` with its software loaded: ``torch.device(name)`` is real from here on.

    Takes no card. Needs no Lightning. Raises what :func:`get` raises, :class:`SoftwareMissingError`,
    :class:`SoftwareLoadError`, or :class:`DeviceTypeTakenError` where this process has loaded another backend.
    """
    return loaded.load(get(name))
