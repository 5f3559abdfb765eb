"""The result of a backend's detection on this machine, in a process without torch."""

from __future__ import annotations

import sys


def answer(name: str) -> dict[str, object]:
    """Return two results of ``detect`` of the backend ``name``, and all available backends."""
    import northbridge
    from northbridge.discovery.present import detect

    backend = northbridge.get(name)
    found: list[object] = []
    for _ in range(2):
        try:
            found.append(detect(backend))
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
