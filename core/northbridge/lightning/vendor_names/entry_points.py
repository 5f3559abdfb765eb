"""Further entry points of a plugin, read without importing it.

They are further names of strategies, and the packages that the backend replaces if they are installed too. An entry
belongs to the backend whose plugin is the module of the entry::

    [project.entry-points."northbridge.backends"]
    acme = "northbridge_acme"

    [project.entry-points."northbridge.strategies"]  # Trainer(strategy="acme_ddp")
    acme_ddp = "northbridge_acme:AcmeDDPStrategy"

    [project.entry-points."northbridge.succeeds"]  # an archived package, which registers "acme" too
    lightning_acme = "northbridge_acme"
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from northbridge.discovery.declared import get
from northbridge.discovery.installed import GROUP, describe, read_entry_points
from northbridge.errors import PluginImportError
from northbridge.lightning.vendor_names.strategies import StrategyName
from northbridge.processes.endings import describe_error

STRATEGIES = "northbridge.strategies"
SUCCEEDS = "northbridge.succeeds"


@dataclass(frozen=True)
class Alias:
    """A further name of a strategy. It is registered in Lightning's registry instead of a class."""

    name: str
    backend: str
    reference: str

    def __call__(self, **arguments: Any) -> Any:
        """Import the plugin and build a strategy that belongs to no namespace yet.

        Raises the errors of :func:`northbridge.get`, and :class:`PluginImportError` if the entry is wrong.
        """
        get(self.backend)
        module, _, attribute = self.reference.partition(":")
        try:
            made = getattr(importlib.import_module(module), attribute)(**arguments)
            if not isinstance(made, StrategyName):
                raise TypeError(f"it returned {made!r}, not a StrategyName")
        except (AttributeError, TypeError) as error:
            raise PluginImportError(
                f"{describe(self.backend)}: strategy={self.name!r} cannot be made: {describe_error(error)}."
                " Fix: strategy='ddp'",
                backend=self.backend,
            ) from error
        return made


@dataclass(frozen=True)
class Announced:
    """The entry points of all installed plugins, except those with the backends' names."""

    aliases: tuple[Alias, ...]
    predecessors: tuple[tuple[str, str], ...]
    """Pairs of a backend and a module that it replaces."""

    def predecessors_of(self, backend: str) -> list[str]:
        """Return the modules that ``backend`` replaces."""
        return [module for name, module in self.predecessors if name == backend]


def read_announced() -> Announced:
    """Read the metadata of every distribution once for all groups, which takes milliseconds."""
    found = read_entry_points()
    backends = {entry.value: entry.name for entry in found.select(group=GROUP)}
    return Announced(
        aliases=tuple(
            Alias(entry.name, backends[entry.module], entry.value)
            for entry in found.select(group=STRATEGIES)
            if entry.module in backends
        ),
        predecessors=tuple(
            (backends[entry.value], entry.name) for entry in found.select(group=SUCCEEDS) if entry.value in backends
        ),
    )
