"""The environment around a vendor's import, which may write to it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def keep_environment(names: Iterable[str], *, written: Mapping[str, str | None] | None = None) -> Iterator[None]:
    """Leave the variables ``names`` as they were before, whatever is written to them inside.

    For ``Bridge.load``. Where the script has imported the vendor's software before us, ``written`` says what that
    import writes: a variable that holds just this, and did not when the process started, is put back to what it was
    then. What the user has set stays.
    """
    before = {name: os.environ.get(name) for name in names}
    for name, value in (written or {}).items():
        if value is not None and before.get(name) == value:
            before[name] = _at_start(name)
    try:
        yield
    finally:
        for name, kept in before.items():
            if kept is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = kept


def _at_start(name: str) -> str | None:
    # Linux keeps what the environment was before any code of this process ran.
    try:
        lines = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return os.environ.get(name)
    start = os.fsencode(f"{name}=")
    return next((os.fsdecode(line.removeprefix(start)) for line in lines if line.startswith(start)), None)
