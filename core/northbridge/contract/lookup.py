"""Look-up of a dotted name in this process."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from northbridge.processes.endings import describe_error


class NotThereError(LookupError):
    """The software does not have the name; the text says where the search ended."""


class NotLoadedError(LookupError):
    """The module is installed, but has not been imported in this process."""


def look_up(name: str, *, importing: bool) -> object:
    """Return the object called ``name``; calls nothing. ``importing`` allows imports of modules on the way.

    Raises :class:`NotThereError` or :class:`NotLoadedError`.
    """
    path, *parts = name.split(".")
    value: object = _module(path, importing=importing)
    for part in parts:
        value = _member(value, path, part, importing=importing)
        path = f"{path}.{part}"
    return value


def _member(owner: object, path: str, part: str, *, importing: bool) -> object:
    if isinstance(owner, ModuleType):
        # Bypasses the module's own __getattribute__ and __getattr__, which may do more than look.
        members = object.__getattribute__(owner, "__dict__")
        if part in members:
            return members[part]
    try:
        return getattr(owner, part)
    except AttributeError:
        pass
    except Exception as error:
        raise NotThereError(f"reading {path}.{part} raised {describe_error(error)}") from error
    if not hasattr(owner, "__path__"):
        raise NotThereError(f"{path} has no {part!r}")
    # By the package's own name: torch.acme may be the module torch_acme.device.
    return _module(f"{getattr(owner, '__name__', path)}.{part}", importing=importing, missing=f"{path} has no {part!r}")


def _module(name: str, *, importing: bool, missing: str = "") -> object:
    module = sys.modules.get(name)
    if module is not None:
        return module
    if find_spec(name) is None:
        raise NotThereError(missing or f"there is no module {name!r}")
    if not importing:
        raise NotLoadedError(f"{name} has not been imported")
    try:
        return import_module(name)
    except (Exception, SystemExit) as error:
        raise NotThereError(f"import {name} raised {describe_error(error)}") from error
