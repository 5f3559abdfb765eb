"""Classes that users derive from Lightning's, from Ray's or from a vendor's name, on a chip.

The user's class comes first, then ours. Ray's classes say that the root device is the CPU if Ray does not know the
chip, and Ray has begun a group over Gloo.
"""

from __future__ import annotations

import sys
from functools import cache
from types import FunctionType
from typing import Any

import torch.distributed

from northbridge.errors import WrongDeviceError
from northbridge.lightning.namespaces import _NamespaceMixin
from northbridge.lightning.strategies.chip import LoadFirst


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
    first = (_RayMixin,) if derives_from_ray(theirs) else ()
    return type(theirs.__name__, (*first, theirs, ours), names)


def _by_name(ours: Any) -> tuple[Any, str]:
    # An accelerator's class is made for one backend, and has no importable name either.
    backend = vars(ours).get("backend_name", "")
    return (ours.__mro__[1], backend) if backend else (ours, "")


def _rebuild(_: LoadFirst | None, theirs: Any, ours: Any, backend: str) -> Any:
    cls = _join(theirs, ours.of(backend) if backend else ours)
    return cls.__new__(cls)


def derives_from_ray(cls: Any) -> bool:
    """Return True if ``cls`` is a class of Ray's, or derives from one."""
    return any(_is_of_ray(each) for each in cls.__mro__)


def _is_of_ray(cls: Any) -> bool:
    return bool(cls.__module__.partition(".")[0] == "ray")


class _RayMixin(_NamespaceMixin):
    """Runs in a worker of Ray Train. A base before Ray's class, because it replaces Ray's root device."""

    @property
    def root_device(self) -> torch.device:
        """The device of this worker."""
        cls: Any = type(self)
        after: Any = super(_before(cls), self)
        device: torch.device = after.root_device
        return device

    def acquire_device(self) -> None:
        """Acquire this worker's device. Raises :class:`WrongDeviceError` if the chip has selected another worker's."""
        super().acquire_device()
        found, own = self.backend.device.current_index(), self.root_device.index
        if found != own:
            raise WrongDeviceError(
                f"{self.backend.name!r} selected device {found}, but this Ray worker holds {own}. Fix: its select()"
            )

    def _start_process_group(self) -> None:
        from torch._C._distributed_c10d import PrefixStore
        from torch.distributed import distributed_c10d

        if not torch.distributed.is_initialized() or torch.distributed.get_backend() != "gloo":
            super()._start_process_group()  # the user may have named the chip's library in Ray's TorchConfig
            return
        # Gloo cannot send the chip's tensors. The workers have met in the group's store.
        group = distributed_c10d._get_default_group()
        timeout = group._get_backend(torch.device("cpu")).options._timeout
        store = distributed_c10d._get_default_store()
        torch.distributed.destroy_process_group()
        _forget(group)
        self._start_over_library(timeout, self._meet(timeout, PrefixStore("northbridge", store)))


def _forget(group: Any) -> None:
    """Let the functions of torch that have ``group`` as a default use the default group.

    torch takes it when it imports them, which is after Ray began the group if the user's function imports them.
    """
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("torch.distributed.")]
    for module in modules:
        for value in list(vars(module).values()):
            # By type(): torch has objects there that warn if isinstance() asks for their class.
            functions = vars(value).values() if issubclass(type(value), type) else (value,)
            for function in functions:
                defaults = function.__defaults__ if type(function) is FunctionType else None
                if defaults and any(each is group for each in defaults):
                    function.__defaults__ = tuple(None if each is group else each for each in defaults)


@cache
def _before(cls: Any) -> Any:
    """Return the class after which ``cls`` looks for its root device: Ray's, unless the user's own is before it."""
    first = next(each for each in cls.__mro__ if each is not _RayMixin and "root_device" in vars(each))
    return first if _is_of_ray(first) else _RayMixin
