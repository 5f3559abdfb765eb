"""User strategies that derive from Lightning's, on a chip: their class first, then ours, then Lightning's."""

from __future__ import annotations

from functools import cache
from typing import Any

from northbridge.lightning.classes import classes
from northbridge.lightning.namespaces import NAMESPACES, Namespace
from northbridge.lightning.strategies.chip import LoadFirst
from northbridge.lightning.vendor_names.entry_points import read_announced


def derive(theirs: Any, ours: Any, namespace: Namespace) -> Any:
    """Return a class of ``ours`` with the changes that ``theirs`` makes to Lightning's class, from which both derive.

    Its ``super()`` calls ours. ``theirs`` may be Lightning's class itself, or may already derive from ours.
    """
    if theirs is ours.stock_class:
        return ours
    return theirs if issubclass(theirs, ours) else _join(theirs, ours, namespace.name)


def drives_a_chip_by_itself(theirs: Any) -> bool:
    """Return True if ``theirs`` is of a package that a backend replaces: its strategies drive the chip themselves."""
    predecessors = {module for _, module in read_announced().predecessors}
    return any(each.__module__.partition(".")[0] in predecessors for each in theirs.__mro__)


@cache
def _join(theirs: Any, ours: Any, namespace: str) -> Any:
    def __reduce__(self: Any) -> tuple[object, ...]:  # a class made at run time has no importable name
        name = None if self._accelerator is None else self.backend.name
        return _rebuild, (name and LoadFirst(name), theirs, namespace, ours.__name__), self.__getstate__()

    names = {"__module__": theirs.__module__, "__qualname__": theirs.__qualname__, "__reduce__": __reduce__}
    return type(theirs.__name__, (theirs, ours), names)


def _rebuild(_: LoadFirst | None, theirs: Any, namespace: str, kind: str) -> Any:
    ours = next(each for each in classes(NAMESPACES[namespace]).strategies if each.__name__ == kind)
    cls = _join(theirs, ours, namespace)
    return cls.__new__(cls)
