"""The names under which a namespace offers the backends: ``accelerator="acme"``, ``strategy="ddp_acme"``, aliases.

A plugin has further entry points, read without importing it: further names of strategies, and the packages that the
backend replaces if they are installed too. An entry belongs to the backend whose plugin is the module of the entry. An
example stands in ``docs/backend-interfaces.md``.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from northbridge.bridge import is_installed
from northbridge.discovery.declared import get
from northbridge.discovery.installed import GROUP, LIGHTNING_NAMES, describe, is_wellformed, names, read_entry_points
from northbridge.errors import PluginImportError, SettingsError
from northbridge.lightning.accelerators.accelerator import is_our_class
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import NAMESPACES, Namespace
from northbridge.lightning.vendor_names.strategies import StrategyName
from northbridge.process_record import note
from northbridge.processes.endings import describe_error
from northbridge.settings import CoreSettings


def register_names(namespace: Namespace) -> None:
    """Register the accelerator and the strategies of every installed backend in ``namespace``; loads nothing.

    A name that another package has registered is left alone, unless the backend replaces that package.
    """
    announced = read_announced()
    for name in _names_to_register():
        _register(namespace, name, announced)
    namespace.strategy_registry.register(
        "ddp_mixed", classes(namespace).mixed_ddp, description="DDP on several vendors' chips", override=True
    )


def claim_name(namespace: Namespace, name: str) -> bool:
    """Register backend ``name`` in ``namespace`` again if a package that it replaces holds the name; True if it did."""
    owner = namespace.owner(name)
    announced = read_announced()
    if owner is None or _module_of(owner) not in announced.predecessors_of(name):
        return False
    _register(namespace, name, announced)
    return True


def tell_of_predecessors(namespace: Namespace, name: str) -> None:
    """Warn once, on rank 0, about an installed package that the backend ``name`` replaces and that is not used."""
    if name in _told:
        return
    _told.add(name)
    for module in filter(is_installed, read_announced().predecessors_of(name)):
        package = module.replace("_", "-")
        namespace.fabric_module("utilities.rank_zero").rank_zero_warn(
            f"accelerator={name!r} is served by {describe(name)}; {module!r} is installed too, and is not used:"
            f" pip uninstall {package}"
        )


_told: set[str] = set()


def drives_a_chip_by_itself(theirs: Any) -> bool:
    """Return True if ``theirs`` is of a package that a backend replaces: its strategies drive the chip themselves."""
    others = {_module_of(each) for each in theirs.__mro__} - _NEVER_REPLACED
    # Where all is Lightning's, as of most strategies, no metadata is read: each Trainer would wait for it.
    return bool(others) and not others.isdisjoint(module for _, module in read_announced().predecessors)


_NEVER_REPLACED = {"builtins", "abc", "typing", "northbridge", *(name.partition(".")[0] for name in NAMESPACES)}


def let_others_register(namespace: Namespace, original: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
    """Register a name for another package, which may be one that we hold, by a registry's own method ``original``.

    Registrations by packages that a backend replaces are ignored.
    """
    registry: Any = original.__self__
    owner = args[0] if args else kwargs.get("accelerator", kwargs.get("strategy"))
    if owner is None or kwargs.get("override") or name not in registry or not _is_ours(registry[name]):
        return original(name, *args, **kwargs)
    who = f"{owner.__module__}.{getattr(owner, '__qualname__', owner)}"
    if _module_of(owner) in {module for _, module in read_announced().predecessors}:
        note(name, "left out", f"{who} tried to register it; Northbridge already has")
        return owner
    note(name, "given up", f"{who} has registered it")
    return original(name, *args, **{**kwargs, "override": True})


def _is_ours(entry: Any) -> bool:
    owner = entry.get("accelerator", entry.get("strategy"))
    return isinstance(owner, Alias) or is_our_class(owner) or _module_of(owner) == "northbridge"


def _names_to_register() -> list[str]:
    try:
        settings = CoreSettings.read()
    except SettingsError as error:
        # Lightning is only being imported: a run that asks for one of the names gets the error.
        note("northbridge", "wrong setting", str(error), problem=True)
        settings = CoreSettings()
    registered = []
    for name in names():
        if settings.disables(name):
            note(name, "off", "NORTHBRIDGE_DISABLE names it")
        elif name in LIGHTNING_NAMES:
            note(name, "refused", "the name is Lightning's own", problem=True)
        elif not is_wellformed(name):
            note(name, "refused", "a name is made of lower-case letters, digits and underscores", problem=True)
        else:
            registered.append(name)
    return registered


def _register(namespace: Namespace, name: str, announced: Announced) -> None:
    ours = classes(namespace)
    succeeded = announced.predecessors_of(name)
    owner = namespace.owner(name)
    if owner is not None and not is_our_class(owner) and not _may_replace(namespace, name, owner, succeeded):
        return
    namespace.accelerator_registry.register(
        name, ours.accelerator.of(name), description=f"Northbridge: {name}", override=True
    )
    strategies = namespace.strategy_registry
    strategies.register(f"single_{name}", ours.single_device, description=f"one {name} device", override=True)
    for suffix, start_method in _START_METHODS.items():
        for tail, options in _UNUSED_PARAMETERS.items():
            strategies.register(
                f"ddp_{name}{suffix}{tail}",
                ours.ddp,
                description=f"DDP on {name}",
                override=True,
                start_method=start_method,
                **options,
            )
    for alias in announced.aliases:
        if alias.backend == name:
            _register_alias(namespace, alias, succeeded)


def _register_alias(namespace: Namespace, alias: Alias, succeeded: list[str]) -> None:
    registry, ours = namespace.strategy_registry, classes(namespace)
    owner = registry[alias.name]["strategy"] if alias.name in registry else None
    if owner in ours.strategies:
        return  # the alias equals a generic name, which means the same
    if not is_wellformed(alias.name):
        reason = "the name of a strategy is made of lower-case letters, digits and underscores"
        note(alias.backend, "refused", f"strategy {alias.name!r}: {reason}", problem=True)
    elif owner is None or isinstance(owner, Alias) or _may_replace(namespace, alias.name, owner, succeeded):
        registry.register(alias.name, alias, description=f"{alias.reference} on {alias.backend}", override=True)


def _may_replace(namespace: Namespace, name: str, owner: Any, succeeded: list[str]) -> bool:
    mine = _module_of(owner) in succeeded
    whose = f"{owner.__module__}.{owner.__qualname__} {'had' if mine else 'has'} it in {namespace.name}"
    note(name, "taken over" if mine else "left alone", whose)
    return mine


def _module_of(owner: Any) -> str:
    return str(owner.__module__).partition(".")[0]


_START_METHODS = {"": "popen", "_spawn": "spawn", "_fork": "fork", "_notebook": "fork"}
_UNUSED_PARAMETERS: dict[str, dict[str, bool]] = {
    "": {},
    "_find_unused_parameters_false": {"find_unused_parameters": False},
    "_find_unused_parameters_true": {"find_unused_parameters": True},
}


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
