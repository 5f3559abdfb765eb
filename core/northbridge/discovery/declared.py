"""*Declared*: the plugin of one backend is imported, and its ``Backend`` is kept here."""

from __future__ import annotations

import copyreg
import os
import threading
from collections.abc import Callable

from northbridge.backend import Backend
from northbridge.discovery.hooks import declare
from northbridge.discovery.installed import describe, find, names, reject_disabled
from northbridge.discovery.simulated import reject_unknown_simulation, simulate
from northbridge.errors import NorthbridgeError

_declared: dict[str, Backend] = {}
_keeping = threading.Lock()


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
        _keep(name, declare(find(name)))
    real = _declared[name]
    if not real.capabilities.simulated and os.environ.get("NORTHBRIDGE_SIMULATE") == name:
        _keep(name, simulate(real), instead_of=real)
    return _declared[name]


def keep(backend: Backend) -> None:
    """Let :func:`get` return ``backend``, which no plugin declares, from here on."""
    _keep(backend.name, backend, instead_of=_declared.get(backend.name))


def _keep(name: str, backend: Backend, *, instead_of: Backend | None = None) -> None:
    # The first of several threads decides. Others imported the plugin at the same time: a lock around an import may
    # wait for another thread's import, which waits for the lock.
    with _keeping:
        if _declared.get(name) is instead_of:
            _declared[name] = backend


def is_declared(name: str) -> bool:
    """Return True if the plugin of backend ``name`` has been imported in this process."""
    return name in _declared


def _reduce(backend: Backend) -> tuple[Callable[[str], Backend], tuple[str]]:
    # Devices and vendor handles cannot be sent to another process. The name can, and the child looks up its own.
    return get, (backend.name,)


copyreg.pickle(Backend, _reduce)


def load(name: str) -> Backend:
    """Load the software of the backend called ``name`` and return it, so that ``torch.device(name)`` works.

    Acquires no card and needs no Lightning. Raises the errors of :func:`get`, :class:`SoftwareMissingError`,
    :class:`SoftwareLoadError`, or :class:`DeviceTypeTakenError` if this process has loaded another backend.
    """
    from northbridge.discovery import loaded  # not at the top: a declaration alone needs no contract

    return loaded.load(get(name))


def say_not_loaded(name: str) -> str | None:
    """Return the reason why chip ``name`` is not loaded, and the fix; None if no backend of that name is installed."""
    if name not in names():
        return None
    from northbridge.discovery import loaded

    try:
        loaded.reject_missing_software(get(name))
    except NorthbridgeError as error:
        return str(error)
    return f"{describe(name)} is not loaded. Fix: import northbridge; northbridge.load({name!r})"
