"""What ``northbridge list`` knows about this environment.

Metadata is read in this process; whatever can crash, hang or print is asked in child processes. Reading metadata alone
imports neither torch nor a plugin, and pydantic only where a ``NORTHBRIDGE_`` variable is set.
"""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from northbridge.listing.backends import BackendRow, Claimed, backend_row, claimed
from northbridge.listing.faces import FaceRow, face_rows, record_of_faces

if TYPE_CHECKING:
    from collections.abc import Callable

    from northbridge.journal import Entry
    from northbridge.listing.report import Reply, Stage

LOAD_SECONDS = 600.0
"""How long one backend's software may take to load: a chip that is compiled on first use takes minutes."""


@dataclass(frozen=True)
class Listing:
    """Everything that was found; the keys of the JSON are the names of these fields and of the rows'."""

    northbridge: str
    python: str
    torch: str | None
    backends: tuple[BackendRow, ...]
    faces: tuple[FaceRow, ...]
    record: tuple[Entry, ...]

    @property
    def broken(self) -> bool:
        """Whether a backend, or an installed face of Lightning, cannot do its work."""
        return any(row.is_broken for row in self.backends) or any(row.is_broken for row in self.faces)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def read_metadata() -> Listing:
    """Return what the metadata of the installed distributions says, importing none of them. Raises SettingsError."""
    return _listing([backend_row(each) for each in claimed()], face_rows(), ())


def probe(
    *, load_seconds: float = LOAD_SECONDS, tell: Callable[[str, str], None] = lambda _who, _what: None
) -> Listing:
    """Return what child processes found out, a few of them at a time.

    ``load_seconds`` bounds the loading of one backend's software; ``tell`` is called with who is being asked, and what;
    with nothing when the answer is there.
    Raises :class:`SettingsError`.
    """
    import asyncio

    return asyncio.run(_probe(load_seconds, tell))


async def _probe(load_seconds: float, tell: Callable[[str, str], None]) -> Listing:
    import asyncio

    from northbridge.listing import backends, child, faces
    from northbridge.settings import CoreSettings

    everything = claimed()
    backend_stages = backends.stages(detect=CoreSettings.read().detect_timeout, load=load_seconds)
    # Each child imports torch: more of them at once than there are cores would only exceed each other's time limits.
    gate = asyncio.Semaphore(min(4, max(2, os.cpu_count() or 2)))

    async def ask(who: str, question: str, stages: dict[str, Stage]) -> Reply:
        async with gate:
            reply = await child.ask(question, stages, lambda what: tell(who, what))
            tell(who, "")
            return reply

    async def ask_backend(each: Claimed) -> BackendRow:
        if each.verdict is not None:
            return backend_row(each)
        return backend_row(each, await ask(each.name, backends.question(each.name), backend_stages))

    async def ask_faces() -> tuple[list[FaceRow], tuple[Entry, ...]]:
        names = [row.name for row in face_rows() if row.status == "not asked"]
        if not names:
            return face_rows(), ()
        reply = await ask("Lightning", faces.question(names), faces.stages(names))
        return face_rows(reply), record_of_faces(reply)

    (found, record), rows = await asyncio.gather(ask_faces(), asyncio.gather(*map(ask_backend, everything)))
    return _listing(rows, found, record)


def _listing(backends: list[BackendRow], faces: list[FaceRow], record: tuple[Entry, ...]) -> Listing:
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = None
    return Listing(version("northbridge"), platform.python_version(), torch, tuple(backends), tuple(faces), record)
