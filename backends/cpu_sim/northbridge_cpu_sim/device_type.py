"""Corrections of torch's Python code that decides by device type: the chip counts as torch's own, or is rejected."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from types import FrameType
from typing import Any

import torch
import torch.distributed.device_mesh as device_mesh
from torch.multiprocessing import reductions
from torch.utils.dlpack import DLDeviceType

import northbridge
from northbridge_cpu_sim.chip import installed_type

_FEEDER = "QueueFeederThread"
"""Name of the thread that pickles a Python queue's objects. An error there is printed, and the queue's reader hangs."""


def name_in_dlpack(name: str) -> None:
    """Let tensors on a device called `name` report the "extension device" of torch's capsules in DLPack.

    Torch expects the type's old name, privateuse1, and raises ValueError for a renamed type.
    """
    ask: Callable[[torch.Tensor], Any] = torch.Tensor.__dlpack_device__

    @functools.wraps(ask)
    def __dlpack_device__(tensor: torch.Tensor) -> Any:
        device = tensor.device
        return (DLDeviceType.kDLExtDev, device.index) if device.type == name else ask(tensor)

    torch.Tensor.__dlpack_device__ = __dlpack_device__  # type: ignore[method-assign, assignment]


class _Letters(str):
    """A name whose `isalpha` is always True."""

    def isalpha(self) -> bool:
        return True


def accept_in_meshes(name: str) -> None:
    """Let `init_device_mesh`, in every module that has imported it, make meshes of the device type `name`.

    FSDP2 and Lightning make their meshes with it. It treats a type that is not all letters as one with an index.
    """
    if name.isalpha():
        return
    original = device_mesh.init_device_mesh

    @functools.wraps(original)
    def init_device_mesh(device_type: str, *args: Any, **options: Any) -> device_mesh.DeviceMesh:
        if device_type != name:
            return original(device_type, *args, **options)
        mesh = original(_Letters(name), *args, **options)
        mesh._device_type = name  # Dynamo supports only plain strings
        return mesh

    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", {}).get("init_device_mesh") is original:
            module.__dict__["init_device_mesh"] = init_device_mesh


def choose_as_for_cpu(name: str) -> None:
    """Let ``nn.LinearCrossEntropyLoss`` choose the dtype of its sums on the chip as on the CPU.

    torch has it since 2.13; if its method is gone, nothing is changed.
    """
    options: Any = getattr(torch.nn, "LinearCrossEntropyOptions", None)
    adjust = getattr(options, "_adjust", None)
    if adjust is None:
        return

    @functools.wraps(adjust)
    def adjusted(
        self: Any, num_batches: int, in_features: int, num_classes: int, dtype: torch.dtype, device: Any = None
    ) -> Any:
        if device is not None and torch.device(device).type == name:
            device = torch.device("cpu")
        return adjust(self, num_batches, in_features, num_classes, dtype, device)

    options._adjust = adjusted


def reject_sharing(name: str) -> None:
    """Reject `share_memory_()` of tensors on a device called `name`, and queues and pipes with them.

    They raise `northbridge.UnsupportedError`; a queue does so for its reader.
    """
    share: Callable[..., Any] = torch.UntypedStorage.share_memory_

    @functools.wraps(share)
    def share_memory_(storage: torch.UntypedStorage, *args: Any, **options: Any) -> torch.UntypedStorage:
        if storage.device.type == name:
            raise _not_shared(storage.device)
        shared: torch.UntypedStorage = share(storage, *args, **options)
        return shared

    torch.UntypedStorage.share_memory_ = share_memory_  # type: ignore[method-assign]
    for carried, reduce in (
        (torch.Tensor, reductions.reduce_tensor),
        (torch.nn.Parameter, reductions.reduce_tensor),
        (torch.UntypedStorage, reductions.reduce_storage),
    ):
        ForkingPickler.register(carried, functools.partial(_reduce, name, reduce))


def _reduce(name: str, reduce: Callable[[Any], Any], value: Any) -> Any:
    if value.device.type != name:
        return reduce(value)
    error = _not_shared(value.device)
    if threading.current_thread().name == _FEEDER:
        return _raise, (error,)
    raise error


def _raise(error: northbridge.UnsupportedError) -> None:
    raise error


def _not_shared(device: torch.device) -> northbridge.UnsupportedError:
    return northbridge.UnsupportedError(
        f"a tensor on {device} cannot be shared between processes. Fix: share its .cpu(); a DataLoader's"
        " workers return CPU tensors",
        capability="sharing",
    )


class _NoGenerator(type):
    """Raises an error on every call and attribute, except the attributes that every class has."""

    def __call__(cls, *_: object, **__: object) -> Any:
        raise _not_generated()

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _not_generated()


class NoInductor(metaclass=_NoGenerator):
    """Stands for the code generators that Inductor looks up: raises as soon as a graph with the device uses it."""


def _not_generated() -> northbridge.UnsupportedError:
    name = installed_type()
    error: northbridge.UnsupportedError = _error_class()(
        f"inductor generates no code for {name}. Fix: torch.compile(…, backend='aot_eager')",
        inspect.currentframe(),
    )
    return error


@functools.cache
def _error_class() -> Any:
    # Dynamo wraps each error of a compiler in its own, except errors of this base. Its import takes seconds, so it is
    # here, where Dynamo has already imported it.
    from torch._dynamo.exc import ShortenTraceback

    class InductorRefusedError(northbridge.UnsupportedError, ShortenTraceback):
        """Inductor was asked to compile for a device that it does not support."""

        def __init__(self, message: str, raised_below: FrameType | None = None) -> None:
            above = None if raised_below is None else raised_below.f_back  # Dynamo hides the frames above it
            ShortenTraceback.__init__(self, message, first_useful_frame=above)
            self.capability = "inductor"

        def __reduce__(self) -> tuple[object, ...]:
            return type(self), (str(self),)  # without the attributes that Dynamo adds

    InductorRefusedError.__qualname__ = "InductorRefusedError"  # pickle finds it by this name, below
    return InductorRefusedError


def __getattr__(name: str) -> Any:
    if name == "InductorRefusedError":
        return _error_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
