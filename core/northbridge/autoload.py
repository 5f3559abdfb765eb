"""Run at the end of ``import torch``, with no import by the user.

torch runs every entry point of the group ``torch.backends``; one that raises breaks ``import torch`` for everybody. So
:func:`arm` imports the standard library alone, never raises, prints nothing, and only puts a finder in front of the
import system. When a namespace of Lightning has imported its connector, the finder calls the registration for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from northbridge.process_record import note

CONNECTORS = {
    "lightning.pytorch.trainer.connectors.accelerator_connector": "lightning.pytorch",
    "lightning.fabric.connector": "lightning.fabric",
    "pytorch_lightning.trainer.connectors.accelerator_connector": "pytorch_lightning",
    "lightning_fabric.connector": "lightning_fabric",
}
"""Each namespace's connector module. When it has run, the namespace's registries, strategies and plugins are complete,
and every way to a Trainer or a Fabric imports it."""

COMMANDS = {"lightning.fabric.cli": "lightning.fabric", "lightning_fabric.cli": "lightning_fabric"}
"""The modules of Lightning's command ``fabric``, and each one's namespace."""

_WATCHED = {**CONNECTORS, **COMMANDS}

# By name: this module stands below all of them.
_STAND_INS = "northbridge.discovery.simulated:put_stand_ins"
_REGISTER = "northbridge.lightning.corrections.table:register"
_SERVE_COMMAND = "northbridge.lightning.corrections.table:register_command"


def arm() -> None:
    """Watch for the namespaces of Lightning that are yet to be imported, and serve those that already are."""
    try:
        if os.environ.get("NORTHBRIDGE_DISABLE", "").strip() == "1":
            note("northbridge", "off", "NORTHBRIDGE_DISABLE=1")
            return
        _put_stand_ins()
        if not is_armed():
            sys.meta_path.insert(0, _ConnectorFinder())
        for watched, namespace in _WATCHED.items():
            module = sys.modules.get(watched)
            if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
                _serve(namespace, command=watched in COMMANDS)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with us must not break `import torch`
        note("northbridge", "failed", f"autoload: {type(error).__name__}: {error}", problem=True)


def _find(place: str) -> Callable[[str], object]:
    module, _, name = place.partition(":")
    found: Callable[[str], object] = getattr(import_module(module), name)
    return found


def is_armed() -> bool:
    """Whether namespaces of Lightning that are yet to be imported in this process will be served."""
    return any(isinstance(finder, _ConnectorFinder) for finder in sys.meta_path)


def _put_stand_ins() -> None:
    # A script may import its vendor's modules before it names the backend.
    name = os.environ.get("NORTHBRIDGE_SIMULATE")
    if not name:
        return
    from northbridge.errors import NorthbridgeError

    try:
        _find(_STAND_INS)(name)
    except NorthbridgeError as error:  # the run that names the backend is told
        note(name, "not simulated", str(error), problem=True)


def _serve(namespace: str, command: bool = False) -> None:
    # Lightning may be imported by a program that does not use us: a failure is recorded, not raised.
    try:
        _find(_SERVE_COMMAND if command else _REGISTER)(namespace)
    except Exception as error:  # noqa: BLE001
        note(namespace, "left alone", f"{type(error).__name__}: {error}", problem=True)


class _ConnectorFinder(MetaPathFinder):
    """Finds what the other finders find, and adds a call at the end of a connector's execution."""

    def __init__(self) -> None:
        self._asking: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # Another tool's finder may ask the others too, and so come back here.
        if fullname not in _WATCHED or fullname in self._asking:
            return None
        self._asking.add(fullname)
        try:
            spec = self._ask_the_others(fullname, path, target)
        finally:
            self._asking.discard(fullname)
        loader = spec.loader if spec is not None else None
        if loader is None or not hasattr(loader, "exec_module"):
            return spec
        execute = loader.exec_module

        def execute_and_serve(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)  # the attribute set below: the loader is itself again
            execute(module)
            _serve(_WATCHED[fullname], command=fullname in COMMANDS)

        loader.exec_module = execute_and_serve  # type: ignore[method-assign]
        return spec

    def _ask_the_others(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in tuple(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                return spec
        return None
