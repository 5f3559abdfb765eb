"""Under which names a face offers the backends: ``accelerator="acme"``, ``strategy="ddp_acme"``."""

from __future__ import annotations

from northbridge.discovery import LIGHTNING_NAMES, is_wellformed, names
from northbridge.errors import SettingsError
from northbridge.journal import note
from northbridge.lightning.accelerator import is_of_ours
from northbridge.lightning.classes import classes
from northbridge.lightning.faces import Face
from northbridge.settings import CoreSettings


def register_names(face: Face) -> None:
    """Register the accelerator and the strategies of every installed backend in ``face``; nothing is loaded by that.

    A name that somebody else has registered there is left alone.
    """
    for name in _names_to_register():
        _register(face, name)


def _names_to_register() -> list[str]:
    try:
        settings = CoreSettings.read()
    except SettingsError as error:
        # Not here, where Lightning is only being imported: a run that asks for one of the names is told.
        note("northbridge", "wrong setting", str(error), problem=True)
        settings = CoreSettings()
    announced = names()
    for name in announced:
        if settings.disables(name):
            note(name, "off", "NORTHBRIDGE_DISABLE names it")
        elif name in LIGHTNING_NAMES:
            note(name, "refused", "the name is Lightning's own", problem=True)
        elif not is_wellformed(name):
            note(name, "refused", "a name is made of lower-case letters, digits and underscores", problem=True)
    return [
        name
        for name in announced
        if is_wellformed(name) and name not in LIGHTNING_NAMES and not settings.disables(name)
    ]


def _register(face: Face, name: str) -> None:
    ours = classes(face)
    owner = face.owner(name)
    if owner is not None and not is_of_ours(owner):
        note(name, "left alone", f"{owner.__module__}.{owner.__qualname__} has it in {face.name}")
        return
    face.accelerator_registry.register(
        name, ours.accelerator.of(name), description=f"Northbridge: {name}", override=True
    )
    strategies = face.strategy_registry
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


_START_METHODS = {"": "popen", "_spawn": "spawn", "_fork": "fork", "_notebook": "fork"}
_UNUSED_PARAMETERS: dict[str, dict[str, bool]] = {
    "": {},
    "_find_unused_parameters_false": {"find_unused_parameters": False},
    "_find_unused_parameters_true": {"find_unused_parameters": True},
}
