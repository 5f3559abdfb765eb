"""Which backends are installed, and how one of them becomes usable.

Four states are told apart. *Installed*: a distribution announces the name in its metadata; nothing is imported.
*Declared*: :func:`get` imported that one plugin and holds its ``Backend``. *Present*: :func:`available` found hardware,
without loading the vendor's software here. *Loaded*: :func:`load` imported it, and torch knows the device.
"""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from northbridge.errors import (
    BackendConflictError,
    BackendDisabledError,
    BackendNameError,
    BackendNotFoundError,
    NorthbridgeError,
    SettingsError,
)
from northbridge.journal import note

if TYPE_CHECKING:
    from importlib.metadata import Distribution

    from northbridge.backend import Backend

GROUP = "northbridge.backends"
"""The entry-point group: ``acme = "northbridge_acme"``, the backend's name and the module with its hook."""

LIGHTNING_NAMES = frozenset({"auto", "cpu", "cuda", "gpu", "mps", "tpu"})
"""The words that mean something to Lightning's ``accelerator=`` already."""

_NAME_AND_VERSION = re.compile(r"^(Name|Version):\s*(\S+)", re.MULTILINE)

_declared: dict[str, Backend] = {}


@dataclass(frozen=True, repr=False)
class Plugin:
    """What a distribution's metadata announces; reading it imports nothing.

    Distribution and version are read when they are asked for: that costs a file each, as much as half of the scan.
    """

    name: str
    module: str
    source: Distribution | None = field(compare=False)

    @property
    def distribution(self) -> str:
        """The distribution's name, or words for one that has none."""
        return self._origin[0]

    @property
    def version(self) -> str:
        """The distribution's version; empty where there is none."""
        return self._origin[1]

    @cached_property
    def _origin(self) -> tuple[str, str]:
        if self.source is None:
            return "an unknown distribution", ""
        # Not source.metadata: that parses the whole README too.
        try:
            text = self.source.read_text("METADATA") or self.source.read_text("PKG-INFO") or ""
        except ValueError:  # bytes that are no text
            text = ""
        fields = dict(_NAME_AND_VERSION.findall(text.partition("\n\n")[0]))
        if "Name" not in fields:  # an installation that was cut short; it must not hide the others
            return f"a broken installation in {self.source.locate_file('')}", ""
        return fields["Name"], fields.get("Version", "")

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}".rstrip()

    def __repr__(self) -> str:
        return f"<Plugin {self.name!r} in {self.module!r}, from {self}>"


def installed() -> tuple[Plugin, ...]:
    """Return every backend's plugin, by name; one name twice where two distributions claim it."""
    return announced(GROUP)


def announced(group: str) -> tuple[Plugin, ...]:
    """Return every plugin that a distribution announces in the entry-point group ``group``, by name."""
    found = [Plugin(entry.name, entry.value, entry.dist) for entry in entry_points(group=group)]
    return tuple(sorted(found, key=lambda plugin: (plugin.name, plugin.module)))


def names() -> list[str]:
    """Return the names that are announced, in order, each once."""
    return sorted({plugin.name for plugin in installed()})


def is_wellformed(name: str) -> bool:
    """Whether ``name`` can stand in a strategy's name, which Lightning reads in lower case, and in a variable."""
    return name.isidentifier() and name == name.lower()


def describe(name: str) -> str:
    """Return what messages call a backend, with where it comes from: ``backend 'acme' (northbridge-acme 1.0)``."""
    origins = " and ".join(sorted(str(plugin) for plugin in installed() if plugin.name == name))
    return f"backend {name!r} ({origins})" if origins else f"backend {name!r}"


def find(name: str) -> Plugin:
    """Return the one plugin that announces ``name``, still importing nothing.

    Raises :class:`BackendNotFoundError`, :class:`BackendConflictError`, :class:`BackendNameError`,
    :class:`BackendDisabledError` or :class:`SettingsError`.
    """
    refuse_unknown_disabled()
    everything = installed()
    claims = [plugin for plugin in everything if plugin.name == name]
    if not claims:
        raise BackendNotFoundError(say_not_installed(name), backend=name)
    _refuse_disabled(name)
    if len(claims) > 1:
        raise BackendConflictError(
            f"backend {name!r} is claimed by {' and '.join(sorted(map(str, claims)))}; uninstall all but one",
            backend=name,
        )
    (plugin,) = claims
    if not is_wellformed(name):
        raise BackendNameError(
            f"{plugin} calls its backend {name!r}, and a name is made of lower-case letters, digits and underscores;"
            f" its vendor has to choose another name, until then uninstall {plugin.distribution}",
            backend=name,
        )
    if name in LIGHTNING_NAMES:
        raise BackendNameError(
            f"{plugin} calls its backend {name!r}, which is one of Lightning's own words for an accelerator; its"
            f" vendor has to choose another name, until then uninstall {plugin.distribution}",
            backend=name,
        )
    return plugin


def get(name: str) -> Backend:
    """Return the backend called ``name``, importing its plugin on first use, and no other.

    Where ``NORTHBRIDGE_SIMULATE`` names it, it is a simulated one from here on. Raises what :func:`find` raises, a
    :class:`PluginError` that names the plugin and the cure, or :class:`SimulationError`.
    """
    if name in _declared:
        # Not find(): to scan the metadata takes milliseconds, and a Trainer asks a dozen times.
        _refuse_disabled(name)
    else:
        from northbridge.personality import refuse_unknown_simulation
        from northbridge.plugin import declare

        refuse_unknown_simulation()
        _declared[name] = declare(find(name))
    if not _declared[name].capabilities.simulated and os.environ.get("NORTHBRIDGE_SIMULATE") == name:
        from northbridge.personality import simulate

        _declared[name] = simulate(_declared[name])
    return _declared[name]


def say_not_installed(name: str) -> str:
    """Return that no backend is called ``name``, with those that are there, for a message."""
    # A narrow cutoff: of three letters, one that differs is another vendor's chip, and not this one misspelt.
    near = difflib.get_close_matches(name.lower(), names(), n=1, cutoff=0.75)
    hint = f"Did you mean {near[0]!r}?" if near else "`northbridge list` says more"
    return f"no backend {name!r} is installed; found {', '.join(names()) or 'none'}. {hint}"


def is_declared(name: str) -> bool:
    """Whether the plugin of backend ``name`` has been imported in this process."""
    return name in _declared


def refuse_unknown_disabled() -> None:
    """Raise :class:`SettingsError` where ``NORTHBRIDGE_DISABLE`` names what is not installed: nothing is off."""
    if not os.environ.get("NORTHBRIDGE_DISABLE"):
        return  # to read the settings costs as much as all the rest of a plain listing
    from northbridge.settings import CoreSettings

    disabled = CoreSettings.read().disable
    unknown = [] if isinstance(disabled, str) else sorted(disabled.difference(names()))
    if unknown:
        text = os.environ["NORTHBRIDGE_DISABLE"]
        raise SettingsError(
            f"NORTHBRIDGE_DISABLE={text!r} names {unknown[0]!r}, and {say_not_installed(unknown[0])}",
            variable="NORTHBRIDGE_DISABLE",
        )


def _refuse_disabled(name: str) -> None:
    from northbridge.settings import CoreSettings

    if CoreSettings.read().disables(name):
        raise BackendDisabledError(
            f"{describe(name)} is switched off by NORTHBRIDGE_DISABLE; unset the variable or take {name!r} out of it",
            backend=name,
        )


def load(name: str) -> Backend:
    """Return the backend called ``name`` with its software loaded: ``torch.device(name)`` is real from here on.

    Takes no card. Needs no Lightning. Raises what :func:`get` raises, :class:`SoftwareMissingError`,
    :class:`SoftwareLoadError`, or :class:`DeviceTypeTakenError` where this process has loaded another backend.
    """
    from northbridge.autoload import arm, is_armed
    from northbridge.software import bring_up

    backend = get(name)
    bring_up(backend)
    if not is_armed():  # torch's autoload was off: a Trainer of this process knows the name from here on
        arm()
    return backend


def available() -> dict[str, int]:
    """Return how many devices each backend has here, for those that have any; simulated ones count.

    Loads no vendor software in this process. A plugin that is broken, switched off or without hardware is left out, and
    ``northbridge.record()`` says why.
    """
    counts: dict[str, int] = {}
    for name in names():
        try:
            count = detect(name)
        except NorthbridgeError as error:
            note(name, "not available", str(error), problem=True)
            continue
        if count > 0:
            counts[name] = count
        else:
            note(name, "not available", "no hardware is present")
    return counts


def detect(name: str) -> int:
    """Return how many devices backend ``name`` has on this machine, within a bounded time.

    Raises what :func:`get` raises, or :class:`DetectionError`.
    """
    from northbridge.probe import count_within_limit

    return count_within_limit(get(name))
