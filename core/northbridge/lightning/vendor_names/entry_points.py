"""Further entry points of a plugin, read without importing it.

Further names of strategies, and the modules whose names the backend takes over where they are installed too. Each
stands in an entry-point group, and belongs to the backend whose plugin is the module of the entry::

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
from importlib.metadata import entry_points
from typing import Any

from northbridge.discovery.declared import get
from northbridge.discovery.installed import GROUP, describe
from northbridge.errors import PluginImportError
from northbridge.lightning.vendor_names.strategies import StrategyName
from northbridge.processes.endings import describe_error

STRATEGIES = "northbridge.strategies"
SUCCEEDS = "northbridge.succeeds"


@dataclass(frozen=True)
class Alias:
    """A further name of a strategy. It stands in Lightning's registry in the place of a class."""

    name: str
    backend: str
    reference: str

    def __call__(self) -> Any:
        """Return a new strategy, which belongs to no namespace yet; the plugin is imported for that.

        Raises what :func:`northbridge.get` raises, and :class:`PluginImportError` where the entry is wrong.
        """
        get(self.backend)
        module, _, attribute = self.reference.partition(":")
        try:
            made = getattr(importlib.import_module(module), attribute)()
            if not isinstance(made, StrategyName):
                raise TypeError(f"it makes {made!r}, which is not a strategy's name")
        except (AttributeError, TypeError) as error:
            raise PluginImportError(
                f"{describe(self.backend)}: strategy={self.name!r} cannot be made: {describe_error(error)}."
                " Fix: strategy='ddp'",
                backend=self.backend,
            ) from error
        return made


@dataclass(frozen=True)
class Announced:
    """Entry points of the installed plugins beside their backends' names."""

    aliases: tuple[Alias, ...]
    predecessors: tuple[tuple[str, str], ...]
    """Each a backend, and a module whose names it takes over."""

    def predecessors_of(self, backend: str) -> list[str]:
        """Return the modules whose names ``backend`` takes over."""
        return [module for name, module in self.predecessors if name == backend]


def read_announced() -> Announced:
    """Read the metadata of every distribution, once for all groups: that takes milliseconds."""
    found = entry_points()
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
