"""The plugin that stands for a backend's own: it makes the named fault where the software is loaded."""

from __future__ import annotations

import json
import os
from importlib import import_module
from typing import Any

from tests.mutation.mutations import VARIABLE, Mutation

import northbridge


@northbridge.hookimpl
def northbridge_backend() -> northbridge.Backend:
    """Return the backend of its own plugin, whose ``load()`` makes the fault."""
    named = json.loads(next(value for name, value in os.environ.items() if name.startswith(VARIABLE)))
    plugin: Any = import_module(named["module"])
    backend: northbridge.Backend = plugin.northbridge_backend()
    bridge: Any = backend.bridge
    load = bridge.load

    def load_and_mutate() -> None:
        from tests.mutation.mutator import mutate  # which imports torch: a process that loads nothing needs none

        load()
        mutate(backend, Mutation(**named["mutation"]))

    bridge.load = load_and_mutate
    return backend
