"""Run at the end of ``import torch``, with no import by the user.

torch runs every entry point of the group ``torch.backends``; an entry point that raises breaks ``import torch``. So
:func:`arm` imports only the standard library, never raises, prints nothing, and only adds two finders to the import
system.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, resolve_name
from inspect import currentframe
from types import ModuleType
from typing import Any

CONNECTORS = {
    "lightning.pytorch.trainer.connectors.accelerator_connector": "lightning.pytorch",
    "lightning.fabric.connector": "lightning.fabric",
    "pytorch_lightning.trainer.connectors.accelerator_connector": "pytorch_lightning",
    "lightning_fabric.connector": "lightning_fabric",
}
"""Each namespace's connector module. Every Trainer and Fabric imports it. After it has run, the namespace's registries,
strategies and plugins are complete."""

COMMANDS = {"lightning.fabric.cli": "lightning.fabric", "lightning_fabric.cli": "lightning_fabric"}
"""The modules of Lightning's command ``fabric``, and each one's namespace."""

_WATCHED = {**CONNECTORS, **COMMANDS}

# Named as text, because those modules import this one.
_STAND_INS = "northbridge.discovery.simulated:import_with_torch"
_REGISTER = "northbridge.lightning.corrections.table:register"
_SERVE_COMMAND = "northbridge.lightning.corrections.table:register_command"
_SAY_NOT_LOADED = "northbridge.discovery.declared:say_not_loaded"

_seed_at_import: int | None = None


def arm() -> None:
    """Watch for namespaces of Lightning that are not imported yet, and serve those that are."""
    try:
        if os.environ.get("NORTHBRIDGE_DISABLE", "").strip() == "1":
            _note("northbridge", "off", "NORTHBRIDGE_DISABLE=1")
            return
        _note_seed()
        _put_stand_ins()
        if not is_armed():
            sys.meta_path.insert(0, _ConnectorFinder())
            sys.meta_path.append(_ChipFinder())
        for watched, namespace in _WATCHED.items():
            module = sys.modules.get(watched)
            if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
                _serve(namespace, command=watched in COMMANDS)
    except Exception as error:  # noqa: BLE001 - an error of ours must not break `import torch`
        _note("northbridge", "failed", f"autoload: {type(error).__name__}: {error}", problem=True)


def seed_since_import() -> int | None:
    """Return torch's seed; None if it is the random one that torch had at the end of its import.

    If torch's autoload was off, it is torch's seed in any case.
    """
    import torch

    seed = torch.initial_seed()
    return None if seed == _seed_at_import else seed


def _note(subject: str, outcome: str, reason: str, *, problem: bool = False) -> None:
    from northbridge.process_record import note  # not at the top: most imports of torch record nothing

    note(subject, outcome, reason, problem=problem)


def _note_seed() -> None:
    global _seed_at_import
    torch: Any = sys.modules.get("torch")
    if getattr(getattr(torch, "__spec__", None), "_initializing", False) and hasattr(torch, "initial_seed"):
        _seed_at_import = torch.initial_seed()


def _find(place: str) -> Callable[[str], object]:
    module, _, name = place.partition(":")
    found: Callable[[str], object] = getattr(import_module(module), name)
    return found


def is_armed() -> bool:
    """Return True if Lightning's namespaces will be served when this process imports them."""
    return any(isinstance(finder, _ConnectorFinder) for finder in sys.meta_path)


def is_importing(fullname: str) -> bool:
    """Return True if an import asks the finder that calls this for ``fullname``, and so gets the finder's error.

    Others expect None for a module that is not there: ``importlib.util.find_spec()``, or code that asks the finder.
    """
    frame = currentframe()
    finder = frame.f_back if frame is not None else None
    asking = finder.f_back if finder is not None else None
    by_import = False
    while asking is not None and str(asking.f_globals.get("__name__")).partition(".")[0] == "importlib":
        if asking.f_code is find_spec.__code__:
            # It imports the packages above the name.
            return resolve_name(asking.f_locals["name"], asking.f_locals["package"]) != fullname
        by_import, asking = True, asking.f_back
    return by_import


def _put_stand_ins() -> None:
    # A script may import its vendor's modules before it names the backend.
    name = os.environ.get("NORTHBRIDGE_SIMULATE")
    if not name:
        return
    from northbridge.errors import NorthbridgeError

    try:
        _find(_STAND_INS)(name)
    except NorthbridgeError as error:  # the run that names the backend gets the error
        _note(name, "not simulated", str(error), problem=True)


def _serve(namespace: str, command: bool = False) -> None:
    # The process that imports Lightning may not use Northbridge: a failure is recorded, not raised.
    try:
        _find(_SERVE_COMMAND if command else _REGISTER)(namespace)
    except Exception as error:  # noqa: BLE001
        _note(namespace, "left alone", f"{type(error).__name__}: {error}", problem=True)


class _ConnectorFinder(MetaPathFinder):
    """Find modules through the other finders, and add a call at the end of a connector's execution."""

    def __init__(self) -> None:
        self._asking: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # Another tool's finder may ask all finders too, and so call this one again.
        if fullname not in _WATCHED or fullname in self._asking:
            return None
        self._asking.add(fullname)
        others = [each for each in sys.meta_path if each is not self and hasattr(each, "find_spec")]
        try:
            spec = next(filter(None, (each.find_spec(fullname, path, target) for each in others)), None)
        finally:
            self._asking.discard(fullname)
        loader = spec.loader if spec is not None else None
        if loader is None or not hasattr(loader, "exec_module"):
            return spec
        execute = loader.exec_module

        def execute_and_serve(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)  # set below; this restores the loader
            execute(module)
            _serve(_WATCHED[fullname], command=fullname in COMMANDS)

        loader.exec_module = execute_and_serve  # type: ignore[method-assign]
        return spec


class _ChipFinder(MetaPathFinder):
    """Say how to load a chip whose module ``torch.acme`` no other finder has found.

    torch imports that module at the first tensor on a device type that it knows and a vendor's package implements.
    """

    _is_asking = False

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the interface's
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> None:
        parent, _, name = fullname.rpartition(".")
        if parent != "torch" or self._is_asking:
            return
        if not is_importing(fullname):  # a plugin that looks for its own chip expects None
            return
        self._is_asking = True
        try:
            said = _find(_SAY_NOT_LOADED)(name)
        except Exception as error:  # noqa: BLE001 - Python's own error follows
            _note(name, "not found", f"{type(error).__name__}: {error}", problem=True)
            return
        finally:
            self._is_asking = False
        if said is not None:
            raise ModuleNotFoundError(f"No module named {fullname!r}: {said}", name=fullname)
