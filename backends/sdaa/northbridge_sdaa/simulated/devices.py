"""The functions of ``torch.sdaa`` about devices that are not as CUDA's."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch

from northbridge_cpu_sim import module as chip
from northbridge_sdaa.simulated import machine

DeviceLike = torch.device | str | int | None

_waiting: list[Callable[[], object]] = []


@dataclass(frozen=True)
class _SDAADeviceProperties:
    """All that is known to be there; the memory is in bytes."""

    total_memory: int


def is_available() -> bool:
    """Return whether this process sees a device."""
    return device_count() > 0


def device_count() -> int:
    """Count the core groups that this process sees."""
    return len(machine.visible())


def _lazy_init() -> None:
    """Use the chip. torch calls it before the first tensor is made there."""
    chip.init()
    vars(sys.modules["torch_sdaa.sdaa"])["_initialized"] = True
    while _waiting:
        _waiting.pop(0)()


def _lazy_call(callable: Callable[[], object]) -> None:  # noqa: A002 - the vendor's name for it
    """Call ``callable`` when the chip is first used, or now, where it has been."""
    if chip.is_initialized():
        callable()
    else:
        _waiting.append(callable)


def get_device_name(device: DeviceLike = None) -> str:
    """Return the file of the card on which a device lies, and no product's name."""
    index = chip.current_device() if device is None else torch.device(device).index or 0
    return f"/dev/tcaicard{machine.card_of(machine.visible()[index])}"


def get_device_properties(device: DeviceLike = None) -> _SDAADeviceProperties:
    """Return an object with the size of the memory, and without what CUDA's has beside it."""
    return _SDAADeviceProperties(total_memory=chip.mem_get_info(device)[1])


def get_device_capability(device: DeviceLike = None) -> None:
    """Return nothing of use."""


def is_bf16_supported() -> bool:
    """Return that tensors can be of bfloat16."""
    return True
