"""*Installed*: a distribution announces the backend's name in its metadata; nothing is imported."""

from __future__ import annotations

import difflib
import os
import re
import sys
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib.metadata import Distribution, distributions, entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from northbridge.errors import (
    BackendConflictError,
    BackendDisabledError,
    BackendNameError,
    BackendNotFoundError,
    InstallationError,
    SettingsError,
)
from northbridge.processes.endings import describe_error

if TYPE_CHECKING:
    from importlib.metadata import SelectableGroups  # Python 3.12 replaced it by EntryPoints

GROUP = "northbridge.backends"
"""The entry-point group. An entry names a backend and its hook's module: ``acme = "northbridge_acme"``."""

SEPARATE = "northbridge.distributions"
"""Backends in ``backends/`` of a clone: ``acme = "northbridge_acme"`` is in the distribution northbridge-acme."""

ALIASES = "northbridge.aliases"
"""What users may call a backend: ``acme-one = "northbridge_acme"``. An error then suggests it for each of the words."""

NO_SUITE = "the conformance suite is not installed. Fix: in a clone of Northbridge, pip install . ./conformance"

LIGHTNING_NAMES = frozenset({"auto", "cpu", "cuda", "gpu", "mps", "tpu"})
"""The words that ``accelerator=`` already understands in Lightning."""

_NAME_AND_VERSION = re.compile(r"^(Name|Version):\s*(\S+)", re.MULTILINE)


@dataclass(frozen=True, repr=False)
class Plugin:
    """One backend in a distribution's metadata; reading it imports nothing.

    Distribution and version are read on demand, because each read opens a file.
    """

    name: str
    module: str
    source: Distribution | None = field(compare=False)

    @property
    def distribution(self) -> str:
        """The distribution's name, or a description if it has none."""
        return self._origin[0]

    @property
    def version(self) -> str:
        """The distribution's version; empty if there is none."""
        return self._origin[1]

    @cached_property
    def _origin(self) -> tuple[str, str]:
        if self.source is None:
            return "an unknown distribution", ""
        # Not source.metadata: that parses the whole README too.
        try:
            text = self.source.read_text("METADATA") or self.source.read_text("PKG-INFO") or ""
        except ValueError:  # the bytes are not text
            text = ""
        fields = dict(_NAME_AND_VERSION.findall(text.partition("\n\n")[0]))
        if "Name" not in fields:  # an interrupted installation; it must not hide the others
            return f"a broken installation in {self.source.locate_file('')}", ""
        return fields["Name"], fields.get("Version", "")

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}".rstrip()

    def __repr__(self) -> str:
        return f"<Plugin {self.name!r} in {self.module!r}, from {self}>"


def installed() -> tuple[Plugin, ...]:
    """Return every backend's plugin, by name. A name appears twice if two distributions claim it."""
    return announced(GROUP)


def announced(group: str) -> tuple[Plugin, ...]:
    """Return every plugin that a distribution announces in the entry-point group ``group``, by name."""
    found = [Plugin(entry.name, entry.value, entry.dist) for entry in read_entry_points().select(group=group)]
    return tuple(sorted(found, key=lambda plugin: (plugin.name, plugin.module)))


def read_entry_points() -> SelectableGroups:
    """Read the entry points of every distribution, anew if a folder of the import path has changed.

    Raises :class:`InstallationError` if those of one cannot be read: Python reads all of them or none.
    """
    return _read(_places())


_Places = tuple[tuple[int, ...], ...]


def _places() -> _Places:
    """Return what differs once a distribution is added to a place of the import path or removed, or a finder is."""
    found: list[tuple[int, ...]] = [tuple(map(id, sys.meta_path))]
    for place in sys.path:
        try:
            status = os.stat(place or os.curdir)
        except (OSError, TypeError, ValueError):  # Python skips names that cannot be folders
            continue
        found.append((status.st_dev, status.st_ino, status.st_mtime_ns))
    return tuple(found)


@lru_cache(maxsize=1)
def _read(_: _Places) -> SelectableGroups:
    # They are in a hundred files, and to load a chip asks a dozen times.
    try:
        return entry_points()
    except Exception as error:
        raise InstallationError(_say_unreadable(error)) from error


def _say_unreadable(error: Exception) -> str:
    for each in distributions():
        try:
            _ = each.entry_points
        except Exception as reason:  # noqa: BLE001 - it is told
            file = Path(getattr(each, "_path", str(each.locate_file("")))) / "entry_points.txt"
            return f"{file.absolute()} cannot be read: {describe_error(reason)}. Fix: reinstall its distribution"
    return f"an installed distribution has entry points that cannot be read: {describe_error(error)}"


def names() -> list[str]:
    """Return the announced names, sorted and unique."""
    return sorted({plugin.name for plugin in installed()})


def is_wellformed(name: str) -> bool:
    """Return True if ``name`` is allowed in a variable and in a strategy's name, which Lightning lower-cases."""
    return name.isidentifier() and name == name.lower()


def describe(name: str) -> str:
    """Return the text for a backend in messages, with its origin: ``backend 'acme' (northbridge-acme 1.0)``."""
    origins = " and ".join(sorted(str(plugin) for plugin in installed() if plugin.name == name))
    return f"backend {name!r} ({origins})" if origins else f"backend {name!r}"


def find(name: str) -> Plugin:
    """Find the only plugin that announces ``name``, without importing it.

    Raises :class:`BackendNotFoundError`, :class:`BackendConflictError`, :class:`BackendNameError`,
    :class:`BackendDisabledError` or :class:`SettingsError`.
    """
    reject_unknown_disabled()
    everything = installed()
    claims = [plugin for plugin in everything if plugin.name == name]
    if not claims:
        raise BackendNotFoundError(say_not_installed(name), backend=name)
    reject_disabled(name)
    if len(claims) > 1:
        raise BackendConflictError(
            f"backend {name!r} is installed twice: {' and '.join(sorted(map(str, claims)))}. Fix: uninstall one",
            backend=name,
        )
    (plugin,) = claims
    if is_wellformed(name) and name not in LIGHTNING_NAMES:
        return plugin
    wrong = "which is Lightning's own word" if is_wellformed(name) else "not lower-case letters, digits and underscores"
    raise BackendNameError(
        f"{plugin} calls its backend {name!r}, {wrong}. Fix: uninstall {plugin.distribution}", backend=name
    )


def say_install(*names: str) -> str:
    """Return the line that installs a backend of this repository; several are alternatives."""
    return f"in a clone of Northbridge, {' or '.join(f'pip install . ./backends/{name}' for name in names)}"


def say_not_installed(name: str) -> str:
    """Return a message that no backend is called ``name``: with the names that exist, and what to install."""
    here, separate = names(), {plugin.name for plugin in announced(SEPARATE)}.difference(names())
    meant = _guess(name, [*here, *separate])
    hints = [f"Did you mean {' or '.join(map(repr, meant))}?"] if meant and meant != [name] else []
    if missing := separate.intersection(meant):
        hints.append(f"Fix: {say_install(*sorted(missing))}")
    said = " ".join(hints) or "`northbridge list` says more"
    return f"no backend {name!r} is installed; found {', '.join(here) or 'none'}. {said}"


def _guess(name: str, known: list[str]) -> list[str]:
    """Return the names in ``known`` that a user may mean by ``name``: itself, those of an alias, or the nearest."""
    if name in known:
        return [name]
    backends = {plugin.module: plugin.name for plugin in (*announced(SEPARATE), *installed())}
    words = [(each, each) for each in known]
    for alias in announced(ALIASES):
        if alias.module in backends:
            words += [(word, backends[alias.module]) for word in (alias.name, *alias.name.split("-"))]
    # A narrow cutoff: a three-letter name with one other letter is another vendor's chip, not a misspelling.
    near = difflib.get_close_matches(name.lower(), [word for word, _ in words], n=1, cutoff=0.75)
    return sorted({backend for word, backend in words if word in near})


def reject_unknown_disabled() -> None:
    """Raise :class:`SettingsError` if ``NORTHBRIDGE_DISABLE`` names a backend that is not installed."""
    if not os.environ.get("NORTHBRIDGE_DISABLE"):
        return  # reading the settings takes as long as the rest of a plain listing
    from northbridge.settings import CoreSettings

    disabled = CoreSettings.read().disable
    unknown = [] if isinstance(disabled, str) else sorted(disabled.difference(names()))
    if unknown:
        text = os.environ["NORTHBRIDGE_DISABLE"]
        raise SettingsError(
            f"NORTHBRIDGE_DISABLE={text!r}: {say_not_installed(unknown[0])}",
            variable="NORTHBRIDGE_DISABLE",
        )


def reject_disabled(name: str) -> None:
    """Raise :class:`BackendDisabledError` if ``NORTHBRIDGE_DISABLE`` disables backend ``name``."""
    from northbridge.settings import CoreSettings

    if CoreSettings.read().disables(name):
        backend = describe(name)
        raise BackendDisabledError(
            f"{backend} is disabled. Fix: remove {name!r} from NORTHBRIDGE_DISABLE",
            backend=name,
        )
