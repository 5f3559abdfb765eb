"""Names that a plugin's module offers, and imports when somebody asks for one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def late_names(package: str, home: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of ``package``, which takes the names of classes from the module ``home``.

    Only what begins with a capital letter is looked for there: whoever declares the chip, or imports a module of the
    package, does not pay for ``home``.
    """

    def look_up(name: str) -> Any:
        if not name[:1].isupper():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home), name)

    return look_up
