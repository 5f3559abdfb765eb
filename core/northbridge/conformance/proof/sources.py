"""The suite's own files: a report says by their digest which suite it comes from."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parents[1]


@cache
def digest_sources() -> str:
    """Return a digest of every file of the suite, by name and content."""
    total = hashlib.sha256()
    for path in sorted(_FOLDER.rglob("*.py")):
        total.update(f"{path.relative_to(_FOLDER).as_posix()}\n".encode())
        total.update(path.read_bytes())
    return total.hexdigest()
