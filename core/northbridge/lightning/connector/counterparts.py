"""Objects that belong to another of Lightning's namespaces than the Trainer or Fabric they are given to, or to none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from northbridge.errors import FaceError
from northbridge.lightning.accelerators.accelerator import is_of_ours, is_ours
from northbridge.lightning.classes import classes
from northbridge.lightning.connector.conversion import take_names
from northbridge.lightning.namespaces import FACES

if TYPE_CHECKING:
    from northbridge.lightning.namespaces import Face


def exchange(face: Face, arguments: dict[str, Any]) -> None:
    """Replace our objects of another face, and vendors' names of none, by their twins of ``face``, in place.

    A foreign object of another face is refused with the right import, if the run is ours: ``isinstance`` would fail in
    Lightning, whose own message is about something else.
    """
    take_names(face, arguments)
    arguments["accelerator"] = _twin(face, arguments["accelerator"])
    arguments["strategy"] = _twin(face, arguments["strategy"])
    plugins = arguments.get("plugins")
    if isinstance(plugins, (list, tuple)):
        arguments["plugins"] = [_twin(face, plugin) for plugin in plugins]
    elif plugins is not None:
        arguments["plugins"] = _twin(face, plugins)
    if is_ours(arguments["accelerator"]) or is_of_ours(face.owner(arguments["accelerator"])):
        plugins = arguments.get("plugins")
        for each in (arguments["strategy"], *(plugins if isinstance(plugins, list) else [plugins])):
            _refuse_foreign(face, each)


def _twin(face: Face, thing: Any) -> Any:
    home = type(thing).__module__
    if not home.startswith("northbridge.lightning.") or home == face.home:
        return thing
    ours = classes(face)
    if is_ours(thing):
        return ours.accelerator(thing.backend_name)
    name = type(thing).__name__
    if name == "CheckpointIO":
        return ours.checkpoint_io()
    other = next(each for each in FACES.values() if each.home == home)
    twins = {cls.__name__: cls for cls in ours.strategies}
    if other.is_trainer != face.is_trainer or name not in twins:
        raise FaceError(
            f"{home}.{name} was given to a {face.host} of {face.name}: write `from {face.home} import {name}`"
        )
    twin = twins[name].__new__(twins[name])
    twin.__dict__.update(thing.__dict__)
    if thing._accelerator is not None:
        twin._accelerator = _twin(face, thing._accelerator)
    return twin


def _refuse_foreign(face: Face, thing: Any) -> None:
    home = type(thing).__module__
    theirs = next(
        (each for each in FACES.values() if home == each.name or home.startswith(f"{each.name}.")),
        None,
    )
    if theirs is None or theirs.name in (face.name, face.fabric):
        return
    name = type(thing).__name__
    package = home.removeprefix(f"{theirs.name}.").split(".")[0]
    raise FaceError(
        f"{home}.{name} was given to a {face.host} of {face.name}, which has a class of its own: write"
        f" `from {face.name}.{package} import {name}`"
    )
