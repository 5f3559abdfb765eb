"""Imports of a plugin's module. Every plugin pays for each import here, so this module has few."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pluggy

hookimpl: pluggy.HookimplMarker = pluggy.HookimplMarker("northbridge")
"""The decorator for a plugin's ``northbridge_backend()``."""


def lazy_names(package: str, home: str) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for ``package`` that imports classes from the module ``home`` on first use.

    It looks up only names with a capital first letter, so that declaring the chip does not import ``home``.
    """

    def look_up(name: str) -> Any:
        if not name[:1].isupper():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home), name)

    return look_up
