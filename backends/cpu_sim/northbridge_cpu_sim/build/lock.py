"""One process at a time in the folder of the compiled chip."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from northbridge_cpu_sim.build.cache import VARIABLE, reject_foreign, writing
from northbridge_cpu_sim.errors import BuildError

PATIENCE = 15 * 60
"""How many seconds to wait for another process that compiles."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; wait for it up to :data:`PATIENCE`. Raises :class:`BuildError`.

    It is the system's lock and ends with its holder: a killed build leaves nothing to wait for.
    """
    reject_foreign(folder / "lock")
    lock = FileLock(str(folder / "lock"))
    with writing(folder):
        try:
            lock.acquire(timeout=PATIENCE)
        except Timeout:
            raise BuildError(
                f"another process has compiled for {PATIENCE // 60} minutes. Fix: end it (fuser {folder / 'lock'}),"
                f" or set {VARIABLE}"
            ) from None
    try:
        yield
    finally:
        lock.release()
