"""The devices of the chip, and the current one."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

import torch

from northbridge_cpu_sim.module import chip, memory
from northbridge_cpu_sim.module.chip import DeviceLike


def is_available() -> bool:
    """Return True if there is a device, so always after the chip's installation."""
    return device_count() > 0


def device_count() -> int:
    """Count the devices, without using them."""
    return int(chip.extension().device_count())


def init() -> None:
    """Mark the chip as used by this process; every use of a device does so by itself.

    Raises RuntimeError in a child that was forked after its parent had used the chip.
    """
    chip.extension().use()


def is_initialized() -> bool:
    """Return True if this process has used a device."""
    return bool(chip.extension().in_use())


def is_in_bad_fork() -> bool:
    """Return True if this process was forked after its parent had used the chip."""
    return bool(chip.extension().in_bad_fork())


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the dtypes that autocast can use."""
    return [dtype for dtype in (torch.bfloat16, torch.float16) if not chip.extension().lacks(dtype)]


def is_bf16_supported(including_emulation: bool = True) -> bool:  # noqa: ARG001  # as CUDA has it
    """Return True if tensors can be bfloat16; the chip does not distinguish emulation."""
    return torch.bfloat16 in get_amp_supported_dtype()


@dataclass(frozen=True)
class DeviceProperties:
    """Properties of one device.

    The memory is in bytes. `card` is the device's number on the machine, which differs from its index in a process that
    has called `hold`. `multi_processor_count` is the number of threads that an operation may use.
    """

    name: str
    total_memory: int
    card: int
    type: str = field(repr=False)
    multi_processor_count: int = field(repr=False)


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    """Return the name, memory, card, type and processors of a device."""
    return DeviceProperties(
        name=get_device_name(device),
        total_memory=memory.mem_get_info(device)[1],
        card=int(chip.extension().card(chip.index(device))),
        type=str(chip.installed_type()),
        multi_processor_count=torch.get_num_threads(),
    )


def get_device_name(device: DeviceLike = None) -> str:
    """Return the label with which the chip was installed."""
    chip.index(device)
    return str(chip.extension().label())


def current_device() -> int:
    """Return the index of this thread's current device."""
    return int(chip.extension().current_device())


def set_device(device: DeviceLike) -> None:
    """Make a device this thread's current one."""
    chip.extension().exchange_device(chip.index(device))


def _exchange_device(index: int) -> int:
    """Make a device current, and return the previous one; a negative index changes nothing and returns -1."""
    return -1 if index < 0 else int(chip.extension().exchange_device(index))


_maybe_exchange_device = _exchange_device
"""The same function: making a device current costs nothing that could be saved."""


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Return True if one device can copy from the other directly; every pair can."""
    return chip.index(device) != chip.index(peer_device)


def hold(card: int) -> None:
    """Acquire one card for this process, which then has the index 0, as on some real chips.

    Raises RuntimeError if the process holds another card already; the first use acquires card 0.
    """
    chip.extension().hold(card)


def within_reach() -> list[int]:
    """Return the devices that this process may touch: all, or only the one that it holds."""
    return [index for index in range(device_count()) if chip.extension().within_reach(index)]


class device(contextlib.AbstractContextManager[None]):
    """Make a device the current one inside the `with`."""

    def __init__(self, device: DeviceLike) -> None:
        self.idx = chip.index(device)
        self._before: list[int] = []

    def __enter__(self) -> None:
        self._before.append(chip.extension().exchange_device(self.idx))

    def __exit__(self, *_: object) -> None:
        chip.extension().exchange_device(self._before.pop())


class device_of(device):
    """Make the device of a tensor the current one inside the `with`; a tensor on another type changes nothing."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(tensor.device if tensor.device.type == chip.installed_type() else None)
