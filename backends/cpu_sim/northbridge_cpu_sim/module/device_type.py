"""Corrections of torch's Python code that decides by device type, so that the chip counts as torch's own."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed.device_mesh as device_mesh
from torch.utils.dlpack import DLDeviceType


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
