"""DLPack: which of its devices the chip is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.dlpack import DLDeviceType


def name_in_dlpack(name: str) -> None:
    """Let tensors on a device called `name` say where they are, as the "extension device" that torch's capsules name.

    Torch asks for the type's old name, privateuse1, and so raises ValueError for one that was renamed.
    """
    ask: Callable[[torch.Tensor], Any] = torch.Tensor.__dlpack_device__

    @functools.wraps(ask)
    def __dlpack_device__(tensor: torch.Tensor) -> Any:
        device = tensor.device
        return (DLDeviceType.kDLExtDev, device.index) if device.type == name else ask(tensor)

    torch.Tensor.__dlpack_device__ = __dlpack_device__  # type: ignore[method-assign, assignment]
