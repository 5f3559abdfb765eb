"""*Declared*: the plugin of one backend is imported, and its ``Backend`` is kept here."""

from __future__ import annotations

import copyreg
import os
from collections.abc import Callable

from northbridge.backend import Backend
from northbridge.discovery.hooks import declare
from northbridge.discovery.installed import find, reject_disabled
from northbridge.discovery.simulated import reject_unknown_simulation, simulate

_declared: dict[str, Backend] = {}


def get(name: str) -> Backend:
    """Return the backend called ``name``; import its plugin on first use, and no other plugin.

    If ``NORTHBRIDGE_SIMULATE`` names the backend, the result is the simulated one. Raises the errors of :func:`find`, a
    :class:`PluginError` that names the plugin and the fix, or :class:`SimulationError`.
    """
    if name in _declared:
        # Not find(): scanning the metadata takes milliseconds, and a Trainer calls this a dozen times.
        reject_disabled(name)
    else:
        reject_unknown_simulation()
        _declared[name] = declare(find(name))
    if not _declared[name].capabilities.simulated and os.environ.get("NORTHBRIDGE_SIMULATE") == name:
        _declared[name] = simulate(_declared[name])
    return _declared[name]


def is_declared(name: str) -> bool:
    """Return True if the plugin of backend ``name`` has been imported in this process."""
    return name in _declared


def _reduce(backend: Backend) -> tuple[Callable[[str], Backend], tuple[str]]:
    # Devices and vendor handles cannot be sent to another process. The name can, and the child looks up its own.
    return get, (backend.name,)


copyreg.pickle(Backend, _reduce)
