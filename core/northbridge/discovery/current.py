"""The backend that this process runs on, and torch's seed on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from northbridge.autoload import seed_since_import
from northbridge.backend import Backend

_up: list[Backend] = []
_put_into_torch: list[object] = []


def loaded() -> Backend | None:
    """Return the backend whose software this process has loaded; torch serves one accelerator per process."""
    return _up[0] if _up else None


def is_vendors(function: object) -> bool:
    """Return True if ``function``, found in torch, comes from the software that this process has loaded."""
    packages = {backend.bridge.package for backend in _up}
    modules = getattr(function, "__module__", None), getattr(function, "__globals__", {}).get("__name__")
    return function in _put_into_torch or any(str(each).partition(".")[0] in packages for each in modules)


def note_loaded(backend: Backend) -> None:
    """Note that this process runs on ``backend`` from here on; its software is loaded."""
    _up.append(backend)


def note_put_into_torch(*functions: object) -> None:
    """Note ``functions`` with which the backend's software has replaced torch's."""
    _put_into_torch.extend(functions)


@contextmanager
def seeded_when_loaded(backend: Backend) -> Iterator[None]:
    """Seed the chip with torch's seed after its software is loaded inside the ``with``, if the user has set the seed.

    ``torch.manual_seed()`` seeds the devices whose module torch has by then. A chip whose module is there before the
    ``with`` is left alone: torch has seeded it, and the user may have seeded it otherwise since.
    """
    import torch

    was_known = hasattr(torch, backend.device.type)
    yield
    seed = seed_since_import()
    if not was_known and seed is not None:
        seed_chip(backend, seed)


def seed_chip(backend: Backend, seed: int) -> None:
    """Seed every device of a loaded chip that has generators."""
    if has_generators(backend):
        backend.device.seed(seed)


def has_generators(backend: Backend) -> bool:
    """True unless the chip says that it has no random generators of its own."""
    return not backend.present_capabilities().random_numbers.denied
