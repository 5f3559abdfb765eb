"""Classes that users derive from Lightning's or from a vendor's name, on a chip: their class first, then ours."""

from __future__ import annotations

from functools import cache
from typing import Any

from northbridge.lightning.strategies.chip import LoadFirst
from northbridge.lightning.strategies.ray import _RayMixin, is_rays


def derive(theirs: Any, ours: Any) -> Any:
    """Return a class of ``ours`` with the changes that ``theirs`` makes to the class from which both derive.

    Its ``super()`` calls ours. ``theirs`` may be Lightning's class itself, may already derive from ours, or may derive
    from a vendor's name that stands for ours.
    """
    if theirs is getattr(ours, "stock_class", None):
        return ours
    return theirs if issubclass(theirs, ours) else _join(theirs, ours)


@cache
def _join(theirs: Any, ours: Any) -> Any:
    def __reduce__(self: Any) -> tuple[object, ...]:  # a class made at run time has no importable name
        name = None if getattr(self, "_accelerator", None) is None else self.backend.name
        state = self.__getstate__() if hasattr(self, "__getstate__") else vars(self)
        return _rebuild, (name and LoadFirst(name), theirs, *_by_name(ours)), state

    names = {"__module__": theirs.__module__, "__qualname__": theirs.__qualname__, "__reduce__": __reduce__}
    first = (_RayMixin,) if is_rays(theirs) else ()
    return type(theirs.__name__, (*first, theirs, ours), names)


def _by_name(ours: Any) -> tuple[Any, str]:
    # An accelerator's class is made for one backend, and has no importable name either.
    backend = vars(ours).get("backend_name", "")
    return (ours.__mro__[1], backend) if backend else (ours, "")


def _rebuild(_: LoadFirst | None, theirs: Any, ours: Any, backend: str) -> Any:
    cls = _join(theirs, ours.of(backend) if backend else ours)
    return cls.__new__(cls)
