"""What poses as a vendor's software where that is not installed: the stand-ins that make a simulated chip of a backend.

``NORTHBRIDGE_SIMULATE=acme`` puts the stand-ins that the personality ``acme`` brings where Python finds modules. From
there on the backend ``acme`` runs as on the real chip: it imports its vendor's package, and does not know better.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING

from northbridge.cleaning import shorten
from northbridge.errors import BackendConflictError, BackendNotFoundError, SimulationError
from northbridge.journal import note
from northbridge.stand_ins import StandIns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from northbridge.backend import Backend

GROUP = "northbridge.personalities"
"""The entry-point group: ``acme = "northbridge_acme.simulated"``, the backend's name and the module with its hook."""

_posing: dict[str, Personality] = {}


@dataclass(frozen=True)
class Personality:
    """Say which of the vendor's modules are stood in for, and where the code of each stand-in lies.

    ``stand_ins`` maps the name of a top-level module, ``"torch_acme"``, to a file, or to the folder of a package. No
    wheel may install a module of such a name: the core gives it the name, in a process that asks for the simulation.
    """

    stand_ins: Mapping[str, Path]

    dev: Callable[[], Path] | None = None
    """Returns the folder in which the simulated cards have their device files, as the real ones have in ``/dev``."""

    autoloads: tuple[str, ...] = ()
    """The modules among them that ``import torch`` imports at its end, as the vendor's own entry point has it do."""

    tools: Mapping[str, Path] = field(default_factory=dict)
    """The vendor's commands that are stood in for, by name: a Python file each, for :func:`northbridge.run_tool`."""

    harsh: Mapping[str, str] = field(default_factory=dict)
    """As :attr:`Bridge.harsh <northbridge.Bridge.harsh>`, for the chip that it makes of the backend."""


def is_simulable(name: str) -> bool:
    """Whether a personality for backend ``name`` is installed; imports nothing."""
    return any(entry.name == name for entry in entry_points(group=GROUP))


def is_posing(name: str) -> bool:
    """Whether stand-ins pose as the software of backend ``name`` in this process."""
    return name in _posing


def device_folder() -> Path | None:
    """Return the folder that stands for ``/dev`` in this process; None where nothing does."""
    return next((each.dev() for each in _posing.values() if each.dev is not None), None)


def stand_in_for_tool(tool: str) -> list[str] | None:
    """Return the command that stands in for the vendor's command ``tool`` in this process; None where none does."""
    found = next((each.tools[tool] for each in _posing.values() if tool in each.tools), None)
    return None if found is None else [sys.executable, str(found)]


def harsh_variables(name: str) -> Mapping[str, str]:
    """Return the variables under which the simulated chip of backend ``name`` forgives nothing.

    Those of its bridge, and of what poses as its software. Raises what :func:`northbridge.get` raises.
    """
    from northbridge.discovery import get

    return {**get(name).bridge.harsh, **(_posing[name].harsh if name in _posing else {})}


def pose(name: str) -> bool:
    """Let Python find the stand-ins for backend ``name``, once; return False where nobody brings any.

    Called when torch has been imported, and when the backend is first asked for, if ``NORTHBRIDGE_SIMULATE`` names it.
    What the vendor has torch import is imported here too, once torch is there. Raises :class:`SimulationError` where
    the vendor's real software is installed or a stand-in cannot be imported, and what a broken plugin raises.
    """
    if name not in _posing:
        if not is_simulable(name):
            return False
        _posing[name] = _place(name)
        note(
            name,
            "simulated",
            f"NORTHBRIDGE_SIMULATE names it: {', '.join(sorted(_posing[name].stand_ins))} are stand-ins here",
        )
    if "torch" in sys.modules:
        for module in _posing[name].autoloads:
            import_module(module)
    return True


def _place(name: str) -> Personality:
    personality = _get(name)
    for module in personality.stand_ins:
        _refuse_beside_the_real(name, module)
    sys.meta_path.append(StandIns(name, personality.stand_ins))
    return personality


def refuse_unknown_simulation() -> None:
    """Raise :class:`BackendNotFoundError` where ``NORTHBRIDGE_SIMULATE`` names none: the run would be a real one."""
    from northbridge.discovery import names, say_not_installed

    simulated = os.environ.get("NORTHBRIDGE_SIMULATE")
    if simulated and simulated not in names():
        raise BackendNotFoundError(
            f"NORTHBRIDGE_SIMULATE={shorten(simulated)} was asked for, and {say_not_installed(simulated)}",
            backend=simulated,
        )


def simulate(backend: Backend) -> Backend:
    """Return ``backend`` as a simulated one; stand-ins pose as its software from here on.

    Raises :class:`SimulationError`.
    """
    from northbridge.software import loaded

    first = loaded()
    if first is not None and first.name == backend.name:
        raise SimulationError(
            f"NORTHBRIDGE_SIMULATE={backend.name} was asked for, but this process runs on the real {backend.name!r}"
            " already; set the variable before the process starts",
            backend=backend.name,
        )
    if not pose(backend.name):
        raise SimulationError(
            f"NORTHBRIDGE_SIMULATE={backend.name} was asked for, but nobody simulates {backend.name!r}: no installed"
            " distribution brings a personality of that name; unset the variable to run on the real one",
            backend=backend.name,
        )
    return replace(backend, capabilities=replace(backend.capabilities, simulated=True))


def _get(name: str) -> Personality:
    from northbridge.discovery import announced
    from northbridge.plugin import PERSONALITY, call

    plugins = [plugin for plugin in announced(GROUP) if plugin.name == name]
    if len(plugins) > 1:
        raise BackendConflictError(
            f"the simulation of {name!r} is claimed by {' and '.join(sorted(map(str, plugins)))}; uninstall all but"
            " one",
            backend=name,
        )
    return call(plugins[0], PERSONALITY)


def _refuse_beside_the_real(name: str, module: str) -> None:
    found = find_spec(module)
    if found is not None:
        raise SimulationError(
            f"NORTHBRIDGE_SIMULATE={name} was asked for, but the real {module!r} is installed here"
            f" ({found.origin or 'a folder without an __init__.py'}), and nothing stands in for what is there: unset"
            f" NORTHBRIDGE_SIMULATE to run on {name!r} itself, or simulate it in an environment without {module!r}",
            backend=name,
        )
