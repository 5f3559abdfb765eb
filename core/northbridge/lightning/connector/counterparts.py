"""Objects that belong to another of Lightning's namespaces than the Trainer or Fabric they are given to, or to none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from northbridge.errors import NamespaceError
from northbridge.lightning.accelerators.accelerator import is_of_ours, is_ours
from northbridge.lightning.classes import classes
from northbridge.lightning.connector.conversion import take_names
from northbridge.lightning.namespaces import NAMESPACES

if TYPE_CHECKING:
    from northbridge.lightning.namespaces import Namespace


def exchange(namespace: Namespace, arguments: dict[str, Any]) -> None:
    """Replace our objects of another namespace, and vendors' names of none, by their twins of ``namespace``, in place.

    A foreign object of another namespace is refused with the right import, if the run is ours: ``isinstance`` would
    fail in Lightning, whose own message is about something else.
    """
    take_names(namespace, arguments)
    arguments["accelerator"] = _twin(namespace, arguments["accelerator"])
    arguments["strategy"] = _twin(namespace, arguments["strategy"])
    plugins = arguments.get("plugins")
    if isinstance(plugins, (list, tuple)):
        arguments["plugins"] = [_twin(namespace, plugin) for plugin in plugins]
    elif plugins is not None:
        arguments["plugins"] = _twin(namespace, plugins)
    if is_ours(arguments["accelerator"]) or is_of_ours(namespace.owner(arguments["accelerator"])):
        plugins = arguments.get("plugins")
        for each in (arguments["strategy"], *(plugins if isinstance(plugins, list) else [plugins])):
            _refuse_foreign(namespace, each)


def _twin(namespace: Namespace, thing: Any) -> Any:
    home = type(thing).__module__
    if not home.startswith("northbridge.lightning.") or home == namespace.home:
        return thing
    ours = classes(namespace)
    if is_ours(thing):
        return ours.accelerator(thing.backend_name)
    name = type(thing).__name__
    if name == "CheckpointIO":
        return ours.checkpoint_io()
    other = next(each for each in NAMESPACES.values() if each.home == home)
    twins = {cls.__name__: cls for cls in ours.strategies}
    if other.is_trainer != namespace.is_trainer or name not in twins:
        raise NamespaceError(
            f"{home}.{name} was given to a {namespace.host} of {namespace.name}:"
            f" write `from {namespace.home} import {name}`"
        )
    twin = twins[name].__new__(twins[name])
    twin.__dict__.update(thing.__dict__)
    if thing._accelerator is not None:
        twin._accelerator = _twin(namespace, thing._accelerator)
    return twin


def _refuse_foreign(namespace: Namespace, thing: Any) -> None:
    home = type(thing).__module__
    theirs = next(
        (each for each in NAMESPACES.values() if home == each.name or home.startswith(f"{each.name}.")),
        None,
    )
    if theirs is None or theirs.name in (namespace.name, namespace.fabric):
        return
    name = type(thing).__name__
    package = home.removeprefix(f"{theirs.name}.").split(".")[0]
    raise NamespaceError(
        f"{home}.{name} was given to a {namespace.host} of {namespace.name}, which has a class of its own: write"
        f" `from {namespace.name}.{package} import {name}`"
    )
