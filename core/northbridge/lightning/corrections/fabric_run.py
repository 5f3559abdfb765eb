"""``fabric run --accelerator=NAME``: Lightning's command knows only its own accelerators."""

from __future__ import annotations

from typing import Any

from northbridge.discovery.installed import names
from northbridge.lightning.accelerators.accelerator import load_with_hardware
from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import Namespace


def accelerator_option(module: Any) -> Any:
    """Return the option ``--accelerator`` of the command in Lightning's ``module``.

    Raises :class:`AttributeError` if the command has no such option.
    """
    commands = module._main.commands
    options = commands["run"].params if "run" in commands else ()
    for option in options:
        if option.name == "accelerator" and hasattr(option.type, "choices"):
            return option
    raise AttributeError(f"the command 'run' of {module.__name__} offers no accelerator")


def with_our_names(choice: Any) -> Any:
    """Return the option's type ``choice`` with the installed backends added."""
    known = list(choice.choices)
    return type(choice)([*known, *(name for name in names() if name not in known)])


def count_processes(namespace: Namespace, backend: str, devices: str) -> int:
    """Count the ranks that ``--devices`` asks for on ``backend``; loads its software."""
    load_with_hardware(backend)
    chip = classes(namespace).accelerator.of(backend)
    return int(chip.auto_device_count()) if devices == "auto" else len(chip.parse_devices(devices))
