"""torch's seed on a chip that torch did not know when the seed was set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from northbridge.autoload import seed_since_import
from northbridge.backend import Backend


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
