"""Questions about a plugin whose software is not loaded, or cannot be.

What this file imports at its top, :func:`import_module` does not see a plugin import.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def import_module(module: str) -> dict[str, object]:
    """Return the CPU and wall time of ``import <module>``, the modules it imports, and the traces it leaves."""
    import pluggy  # noqa: F401

    # northbridge imports a public name on first use: what a plugin's classes stand on costs it nothing.
    from northbridge import Acceleration, Backend, Bridge, Capabilities, Collective, Device  # noqa: F401

    modules, environ, path = set(sys.modules), dict(os.environ), list(sys.path)
    began, clock = time.process_time(), time.monotonic()
    importlib.import_module(module)
    return {
        "seconds": time.process_time() - began,
        "clock": time.monotonic() - clock,
        "modules": sorted(set(sys.modules) - modules),
        "threads": len(list(Path("/proc/self/task").iterdir())),
        "children": _children(),
        "variables": sorted(name for name, _ in environ.items() ^ dict(os.environ).items()),
        "path": sorted(set(sys.path) ^ set(path)),
    }


def _children() -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (process / "stat").read_text().rpartition(")")
        except OSError:  # the process has ended
            continue
        if int(rest.split()[1]) == os.getpid():
            found.append(name.partition("(")[2])
    return found


def declare(name: str) -> dict[str, object]:
    """Return the declaration of the backend ``name``, with its capabilities from a first and a second ``get``."""
    import northbridge

    backend = northbridge.get(name)
    first = _claims(backend.capabilities)
    again = northbridge.get(name)
    return {
        "name": backend.name,
        "api": [backend.api, northbridge.API_VERSION],
        "type": repr(backend.device.type),
        "collective": repr(getattr(backend.collective, "name", None)),
        "package": backend.bridge.package,
        "capabilities": first,
        "capabilities again": _claims(again.capabilities),
        "operators": sorted(backend.capabilities.operators),
        "parts again": again is backend,
        "modules": sorted({module.partition(".")[0] for module in sys.modules}),
    }


def _claims(capabilities: Any) -> dict[str, list[object]]:
    """Return the kind, answer and reason of each claim, and the kind and value of each fact."""
    from northbridge.capabilities import FACTS

    values = {name: getattr(capabilities, name) for name in FACTS} | capabilities.claims()
    return {
        name: [type(value).__name__, *([repr(value)] if name in FACTS else [value.answer, value.reason])]
        for name, value in values.items()
    }


def detect(name: str) -> dict[str, object]:
    """Return two results of ``detect`` of the backend ``name``, and all available backends."""
    import northbridge
    from northbridge.discovery.present import detect as ask

    backend = northbridge.get(name)
    found: list[object] = []
    for _ in range(2):
        try:
            found.append(ask(backend))
        except northbridge.NorthbridgeError as error:
            if getattr(error, "timed_out", False):
                raise
            found.append(f"{type(error).__name__}: {error}")
    modules = sorted({module.partition(".")[0] for module in sys.modules})  # before the other plugins are imported
    return {
        "detected": found,
        "available": northbridge.available(),
        "installed": backend.bridge.missing() is None,
        "modules": modules,
    }


def miss_hardware(name: str, namespace: str) -> dict[str, object]:
    """Return the error of a Trainer of ``namespace`` if ``detect`` of the backend ``name`` finds no device."""
    lightning: Any = importlib.import_module(namespace)
    import northbridge
    from northbridge.discovery.present import detect as ask

    backend = northbridge.get(name)
    bridge: Any = backend.bridge
    bridge.detect = lambda: 0
    arguments = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = _try(lambda: lightning.Trainer(accelerator=name, devices=1, **arguments))
    # Loaded only if the Trainer has tried it already: a plugin may not be loadable in a fork.
    loaded = _try(lambda: northbridge.load(name)) if trainer[0] == "SoftwareMissingError" else None
    return {
        "detected": ask(backend),
        "available": northbridge.available(),
        "trainer": trainer,
        "loaded": loaded,
    }


def miss_software(name: str, package: str, namespace: str) -> dict[str, object]:
    """Return the results of ``detect``, ``available``, ``load`` and a Trainer of ``namespace`` without ``package``.

    An empty ``package`` hides nothing, as for a backend that brings its software itself.
    """
    if package:
        hide(package.partition(".")[0])
    import northbridge
    from northbridge.autoload import arm
    from northbridge.discovery.present import detect as ask

    def build_trainer() -> object:
        arm()  # torch imports device backends on its import, and must not import the vendor's here
        lightning: Any = importlib.import_module(namespace)
        return lightning.Trainer(
            accelerator=name, devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False
        )

    found = {
        "declared": _try(lambda: northbridge.get(name).name),
        "detected": _try(lambda: ask(northbridge.get(name))),
        "available": _try(northbridge.available),
        "loaded": _try(lambda: northbridge.load(name).name),
    }
    return {**found, "trainer": _try(build_trainer) if package else found["loaded"]}


def _try(action: Callable[[], object]) -> list[str]:
    """Return the kind of the error of ``action`` and its message; without an error, "" and the repr of the result."""
    try:
        return ["", repr(action())]
    except Exception as error:
        if getattr(error, "timed_out", False):
            raise
        return [type(error).__name__, str(error)]


def hide(package: str) -> None:
    """Hide ``package`` and its submodules from all finders."""
    for module in [each for each in sys.modules if each.partition(".")[0] == package]:
        del sys.modules[module]
    sys.meta_path[:] = [_Blind(finder, package) for finder in sys.meta_path]


class _Blind:
    """A finder that hides one package."""

    def __init__(self, finder: Any, package: str) -> None:
        self._finder = finder
        self._package = package

    def find_spec(self, fullname: str, *arguments: Any) -> Any:
        return None if fullname.partition(".")[0] == self._package else self._finder.find_spec(fullname, *arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


def unpickle(name: str, pickles: str) -> dict[str, object]:
    """Return the kind of each unpickled object, or the error; ``pickles`` maps parts to base64, as JSON."""
    import base64
    import json
    import pickle

    import northbridge

    found: dict[str, object] = {}
    for part, text in json.loads(pickles).items():
        try:
            value = pickle.loads(base64.b64decode(text))
        except Exception as error:  # noqa: BLE001 - whatever a vendor's object raises
            found[part] = f"{type(error).__name__}: {error}"
            continue
        if part == "backend":
            found["modules"] = sorted({module.partition(".")[0] for module in sys.modules})
        own = northbridge.get(name) if part == "backend" else getattr(northbridge.get(name), part)
        same = value is own if part == "backend" else type(value) is type(own)
        found[part] = "as declared here" if same else f"{value!r}, and not {own!r}"
    return found
