"""The declaration of a plugin, read in a process without torch."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any


def answer(name: str) -> dict[str, object]:
    """Return the declaration of the backend ``name``, with its capabilities from a first and a second ``get``."""
    import northbridge

    backend = northbridge.get(name)
    first = _claims(backend.capabilities)
    again = northbridge.get(name)
    return {
        "name": backend.name,
        "api": [backend.api, northbridge.API_VERSION],
        "type": repr(backend.device.type),
        "collective": repr(backend.collective.name),
        "package": backend.bridge.package,
        "capabilities": first,
        "capabilities again": _claims(again.capabilities),
        "parts again": again is backend,
        "modules": sorted({module.partition(".")[0] for module in sys.modules}),
    }


def _claims(capabilities: Any) -> dict[str, list[object]]:
    """Return the kind, answer and reason of each claim, and the kind and value of each other field."""
    found = {}
    for field in dataclasses.fields(capabilities):
        value = getattr(capabilities, field.name)
        shown = [value.answer, value.reason] if hasattr(value, "answer") else [repr(value)]
        found[field.name] = [type(value).__name__, *shown]
    return found
