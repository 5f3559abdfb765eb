"""What ``northbridge list`` knows about this environment.

Metadata is read in this process; whatever can crash, hang or print is asked in child processes. Reading metadata alone
imports neither torch nor a plugin, and pydantic only where a ``NORTHBRIDGE_`` variable is set.
"""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from northbridge.diagnostics.backends import BackendRow, Claimed, backend_row, claimed
from northbridge.diagnostics.namespaces import NamespaceRow, namespace_rows

if TYPE_CHECKING:
    from northbridge.process_record import Entry
    from northbridge.processes.child import Tell

LOAD_SECONDS = 600.0
"""How long one backend's software may take to load: a chip that is compiled on first use takes minutes."""


@dataclass(frozen=True)
class Listing:
    """Everything that was found; the keys of the JSON are the names of these fields and of the rows'."""

    northbridge: str
    python: str
    torch: str | None
    backends: tuple[BackendRow, ...]
    namespaces: tuple[NamespaceRow, ...]
    record: tuple[Entry, ...]
    torch_problem: str = ""
    """Why ``import torch`` fails: then nothing is known of what needs torch."""

    @property
    def broken(self) -> bool:
        """Whether torch, a backend, or an installed namespace of Lightning, cannot do its work."""
        backends, namespaces = (any(row.is_broken for row in rows) for rows in (self.backends, self.namespaces))
        return bool(self.torch_problem) or backends or namespaces

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def read_metadata() -> Listing:
    """Return what the metadata of the installed distributions says, importing none of them. Raises SettingsError."""
    return _listing([backend_row(each) for each in claimed()], namespace_rows(), (), "")


def probe(*, load_seconds: float = LOAD_SECONDS, tell: Tell = lambda _who, _what: None) -> Listing:
    """Return what child processes found out, a few of them at a time.

    ``load_seconds`` bounds the loading of one backend's software; ``tell`` is called with who is being asked, and what.
    Raises :class:`SettingsError`.
    """
    from northbridge.diagnostics import backends, namespaces, torch_import
    from northbridge.processes.child import Queue
    from northbridge.settings import CoreSettings

    everything, stages = claimed(), backends.stages(detect=CoreSettings.read().detect_timeout, load=load_seconds)

    def ask(each: Claimed) -> tuple[BackendRow, str]:
        if each.verdict is not None:
            return backend_row(each), ""
        reply = backends.ask(queue, each.name, backends.question(each.name), stages)
        return backend_row(each, reply), torch_import.problem_of(reply)

    with Queue(tell) as queue:
        lightning, asked = queue.submit(namespaces.ask, queue), [queue.submit(ask, each) for each in everything]
        rows, problems = [each.result()[0] for each in asked], [each.result()[1] for each in asked]
        lightnings, record, problem = lightning.result()
    return _listing(rows, lightnings, record, next(filter(None, [problem, *problems]), ""))


def _listing(
    backends: list[BackendRow], namespaces: list[NamespaceRow], record: tuple[Entry, ...], torch_problem: str
) -> Listing:
    return Listing(
        northbridge=version("northbridge"),
        python=platform.python_version(),
        torch=torch_version(),
        backends=tuple(backends),
        namespaces=tuple(namespaces),
        record=record,
        torch_problem=torch_problem,
    )


def torch_version() -> str | None:
    """Return the version of torch that is installed, importing nothing; ``None`` where there is none."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return None
