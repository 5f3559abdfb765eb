"""What a plugin's module needs in order to be declared; apart, because whatever is imported here every plugin pays."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pluggy

hookimpl = pluggy.HookimplMarker("northbridge")
"""Marks a plugin's ``northbridge_backend()``."""


def lazy_names(package: str, home: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of ``package``, which takes the names of classes from the module ``home``.

    Only names that begin with a capital letter are looked up there, so that declaring the chip, or importing a module
    of the package, does not import ``home``.
    """

    def look_up(name: str) -> Any:
        if not name[:1].isupper():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home), name)

    return look_up
