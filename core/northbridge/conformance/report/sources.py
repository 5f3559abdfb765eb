"""The suite's own files, and the claims that its levels take: by their digest a report says which suite it is from."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from northbridge import capabilities

_FOLDER = Path(__file__).parents[1]


@cache
def digest_sources() -> str:
    """Return a digest of every file of the suite, by name and content; it is read once a process."""
    total = hashlib.sha256()
    for path in (*sorted(_FOLDER.rglob("*.py")), Path(capabilities.__file__)):
        total.update(f"{path.relative_to(_FOLDER.parent).as_posix()}\n".encode())
        total.update(path.read_bytes())
    return total.hexdigest()
