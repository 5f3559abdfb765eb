"""Simulation profiles: stand-ins for a vendor's software, which simulate a backend's chip.

``NORTHBRIDGE_SIMULATE=acme`` lets Python find the stand-ins of the simulation ``acme``. From then on the backend
``acme`` runs as on the real chip: it imports its vendor's package, without knowing that it is a stand-in.
"""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from northbridge.backend import Backend
from northbridge.discovery.current import loaded
from northbridge.discovery.hooks import SIMULATION, call
from northbridge.discovery.installed import announced, names, say_not_installed
from northbridge.discovery.stand_ins import StandIns
from northbridge.errors import BackendConflictError, BackendNotFoundError, NorthbridgeError, SimulationError
from northbridge.process_record import note
from northbridge.processes.endings import describe_error
from northbridge.simulation import Simulation
from northbridge.untrusted.text import shorten

GROUP = "northbridge.simulations"
"""The entry-point group. An entry names a backend and its hook's module: ``acme = "northbridge_acme.simulated"``."""

_simulations: dict[str, Simulation] = {}
_placing = threading.Lock()


def is_simulable(name: str) -> bool:
    """Return True if a simulation of backend ``name`` is installed; imports nothing."""
    return any(plugin.name == name for plugin in announced(GROUP))


def simulation_of(name: str) -> Simulation | None:
    """Return the simulation of backend ``name`` that this process runs on; None if the process does not simulate it."""
    return _simulations.get(name)


def device_folder() -> Path | None:
    """Return the folder that replaces ``/dev`` in this process; None if real devices are used."""
    return next((each.dev() for each in _simulations.values() if each.dev is not None), None)


def stand_in_for_tool(tool: str) -> list[str] | None:
    """Return the command that replaces the vendor's command ``tool`` in this process; None if there is no stand-in."""
    found = next((each.tools[tool] for each in _simulations.values() if tool in each.tools), None)
    return None if found is None else [sys.executable, str(found)]


def put_stand_ins(name: str) -> bool:
    """Let Python find the stand-ins for backend ``name``, once; return False if there is no simulation of it.

    Called after the import of torch, and when the backend is first used, if ``NORTHBRIDGE_SIMULATE`` names it. Raises
    :class:`SimulationError` if the vendor's real software is installed, and a broken plugin's errors.
    """
    if name not in _simulations:
        if not is_simulable(name):
            return False
        found = _place(name)
        what = f"{', '.join(sorted(found.stand_ins))} are stand-ins" if found.stand_ins else f"{found.built_in} is used"
        note(name, "simulated", f"NORTHBRIDGE_SIMULATE names it: {what} here")
    return True


def import_with_torch(name: str) -> None:
    """Put the stand-ins for backend ``name``, and import those that ``import torch`` imports on a real machine.

    Raises as :func:`put_stand_ins` does. Another error of such an import is noted: the run that loads the chip imports
    the module again, and gets it.
    """
    if not put_stand_ins(name):
        return
    for module in filter(None, (_simulations[name].built_in, *_simulations[name].autoloads)):
        try:
            import_module(module)
        except NorthbridgeError:
            raise
        except Exception as error:  # noqa: BLE001 - a vendor's import
            note(name, "not imported with torch", describe_error(error), problem=True)


def change_torch(name: str) -> None:
    """Make torch one that was built for the simulated chip of backend ``name``; do nothing for a chip with a package.

    Called when the backend is loaded. Raises what the import of :attr:`Simulation.built_in` raises.
    """
    simulation = _simulations.get(name)
    if simulation is not None and simulation.built_in:
        import_module(simulation.built_in)


def _place(name: str) -> Simulation:
    simulation = _get(name)
    # Before the lock: a look for a submodule imports its package, whose import another thread may hold.
    real = {module: found for module in simulation.stand_ins if (found := find_spec(module)) is not None}
    with _placing:  # of several threads, the first places them: another one would take them for the real modules
        if name not in _simulations:
            for module, spec in real.items():
                raise SimulationError(
                    f"NORTHBRIDGE_SIMULATE={name}, but the real {module!r} is installed ({spec.origin or 'a folder'})."
                    f" Fix: unset it, or uninstall {module!r}",
                    backend=name,
                )
            sys.meta_path.insert(0, StandIns(name, simulation))
            for module, mark in simulation.found.items():
                if hasattr(sys.modules.get(module), mark):
                    setattr(sys.modules[module], mark, True)
            _simulations[name] = simulation
    return _simulations[name]


def reject_unknown_simulation() -> None:
    """Raise :class:`BackendNotFoundError` if ``NORTHBRIDGE_SIMULATE`` names no backend: the run would be a real one."""
    simulated = os.environ.get("NORTHBRIDGE_SIMULATE")
    if simulated and simulated not in names():
        shown, why = shorten(simulated), say_not_installed(simulated)
        raise BackendNotFoundError(
            f"NORTHBRIDGE_SIMULATE={shown}: {why}",
            backend=simulated,
        )


def simulate(backend: Backend) -> Backend:
    """Return ``backend`` as a simulated one; from then on stand-ins are its software.

    Raises :class:`SimulationError`.
    """
    first = loaded()
    if first is not None and first.name == backend.name:
        raise SimulationError(
            f"NORTHBRIDGE_SIMULATE={backend.name}, but this process already uses the real chip. Fix: set"
            " it before the process starts",
            backend=backend.name,
        )
    if not put_stand_ins(backend.name):
        raise SimulationError(
            f"NORTHBRIDGE_SIMULATE={backend.name}, but no installed distribution simulates it. Fix: unset"
            " it to use the real chip",
            backend=backend.name,
        )
    return replace(backend, capabilities=replace(backend.capabilities, simulated=True))


def _get(name: str) -> Simulation:
    plugins = [plugin for plugin in announced(GROUP) if plugin.name == name]
    if len(plugins) > 1:
        raise BackendConflictError(
            f"simulation {name!r} is installed twice: {' and '.join(sorted(map(str, plugins)))}. Fix: uninstall one",
            backend=name,
        )
    return call(plugins[0], SIMULATION)
