"""What is there when a backend's software has been loaded, and loaded again."""

from __future__ import annotations

import base64
import os
import pickle
from collections.abc import Callable
from typing import Any


def answer(name: str) -> dict[str, object]:
    """Return why the backend ``name`` could not be loaded, or what it is like since."""
    import torch

    import northbridge
    from northbridge.discovery import detect

    backend = northbridge.get(name)
    before = dict(os.environ)
    found: dict[str, object] = {"pickles": {"declared": _pickle(backend)}}
    try:
        found["detected"] = detect(name)
        northbridge.load(name)
    except northbridge.NorthbridgeError as error:
        return {**found, "error": [type(error).__name__, str(error)], "variables": _changed(before)}
    first = _look(torch, backend)
    again = northbridge.load(name)
    found["loaded again"] = _say(backend.bridge.load)
    found["looks"] = [first, _look(torch, again)]
    found["same objects"] = again is backend and torch.get_device_module(backend.device.type) is backend.device.module
    module: Any = backend.device.module
    found["is available"] = _say(module.is_available) if hasattr(module, "is_available") else "it does not say"
    if backend.device.count() > 0:
        try:
            backend.bridge.prepare_rank(index=0, local_rank=0, world_size=1)
        except northbridge.NorthbridgeError as error:  # such as of a variable that the user has set
            found["refused for a rank"] = str(error)
    return {**found, "pickles": {**_pickled(found), "loaded": _pickle(backend)}, "variables": _changed(before)}


def _say(function: Callable[[], object]) -> str:
    """Return what ``function`` returns, or raises, in words."""
    try:
        return repr(function())
    except Exception as error:  # noqa: BLE001 - whatever a vendor's code raises
        return f"{type(error).__name__}: {error}"


def _look(torch: Any, backend: Any) -> dict[str, object]:
    return {
        "count": repr(backend.device.count()),
        "device": str(torch.device(backend.device.type)),
        "present": repr(backend.present_capabilities()),
    }


def _changed(before: dict[str, str]) -> dict[str, list[str | None]]:
    """Return each variable that is no longer what it was, with both values."""
    names = {name for name, _ in before.items() ^ dict(os.environ).items()}
    return {name: [before.get(name), os.environ.get(name)] for name in sorted(names)}


def _pickled(found: dict[str, object]) -> Any:
    return found["pickles"]


def _pickle(backend: Any) -> dict[str, list[str]]:
    """Return the pickle of the backend and of each part, or why there is none."""
    found = {}
    for part in ("backend", "device", "collective", "bridge", "capabilities"):
        value = backend if part == "backend" else getattr(backend, part)
        try:
            found[part] = ["pickle", base64.b64encode(pickle.dumps(value)).decode()]
        except Exception as error:  # noqa: BLE001 - whatever a vendor's object raises
            found[part] = ["error", f"{type(error).__name__}: {error}"]
    return found
