"""The errors for a chip whose hardware is missing; its software may be missing too."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


def answer(name: str, namespace: str) -> dict[str, object]:
    """Return the error of a Trainer of ``namespace`` if ``detect`` of the backend ``name`` finds no device."""
    lightning: Any = importlib.import_module(namespace)
    import northbridge
    from northbridge.discovery.present import detect

    backend = northbridge.get(name)
    bridge: Any = backend.bridge
    bridge.detect = lambda: 0
    arguments = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = _ended(lambda: lightning.Trainer(accelerator=name, devices=1, **arguments))
    # Loaded only if the Trainer has tried it already: a plugin may not be loadable in a fork.
    loaded = _ended(lambda: northbridge.load(name)) if trainer[0] == "SoftwareMissingError" else None
    return {
        "detected": detect(backend),
        "available": northbridge.available(),
        "trainer": trainer,
        "loaded": loaded,
    }


def _ended(asked: Callable[[], object]) -> list[str]:
    """Return the kind of the error and its message; without an error, "" and the repr of the result."""
    try:
        return ["", repr(asked())]
    except Exception as error:
        if getattr(error, "timed_out", False):
            raise
        return [type(error).__name__, str(error)]
