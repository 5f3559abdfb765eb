"""Strategies of ``ray.train.lightning``: the device of a worker, and a process group over the chip's library.

Ray's classes say that the root device is the CPU if Ray does not know the chip, and Ray has begun a group over Gloo.
"""

from __future__ import annotations

import sys
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any

from northbridge.errors import WrongDeviceError
from northbridge.lightning.namespaces import _NamespaceMixin

if TYPE_CHECKING:
    import torch


def is_rays(cls: Any) -> bool:
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
        import torch.distributed
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
