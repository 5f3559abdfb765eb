"""Which devices there are, and which one is current."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

import torch

from northbridge_cpu_sim.module import chip, memory
from northbridge_cpu_sim.module.chip import DeviceLike


def is_available() -> bool:
    """Say whether there is a device; True once the chip is installed."""
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
    """Say whether this process has used a device."""
    return bool(chip.extension().in_use())


def is_in_bad_fork() -> bool:
    """Say whether this process was forked after its parent had used the chip."""
    return bool(chip.extension().in_bad_fork())


def get_amp_supported_dtype() -> list[torch.dtype]:
    """List what autocast can lower to."""
    return [dtype for dtype in (torch.bfloat16, torch.float16) if not chip.extension().lacks(dtype)]


def is_bf16_supported(including_emulation: bool = True) -> bool:  # noqa: ARG001  # as CUDA has it
    """Say whether tensors can be of bfloat16; the chip emulates nothing, or everything."""
    return torch.bfloat16 in get_amp_supported_dtype()


@dataclass(frozen=True)
class DeviceProperties:
    """Say what one device is.

    The memory is in bytes. `card` is the device's number on the machine, which differs from its index
    in a process that has called `hold`. `multi_processor_count` is how many threads an operation may use.
    """

    name: str
    total_memory: int
    card: int
    type: str = field(repr=False)
    multi_processor_count: int = field(repr=False)


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    """Give name, memory, card, type and processors of a device."""
    return DeviceProperties(
        name=get_device_name(device),
        total_memory=memory.mem_get_info(device)[1],
        card=int(chip.extension().card(chip.index(device))),
        type=str(chip.installed_type()),
        multi_processor_count=torch.get_num_threads(),
    )


def get_device_name(device: DeviceLike = None) -> str:
    """Give the label that the chip was installed with."""
    chip.index(device)
    return str(chip.extension().label())


def current_device() -> int:
    """Give the index of this thread's current device."""
    return int(chip.extension().current_device())


def set_device(device: DeviceLike) -> None:
    """Make a device this thread's current one."""
    chip.extension().exchange_device(chip.index(device))


def _exchange_device(index: int) -> int:
    """Make a device current, and give the one before; a negative index changes nothing, and gives -1."""
    return -1 if index < 0 else int(chip.extension().exchange_device(index))


_maybe_exchange_device = _exchange_device
"""The same: to make a device current costs nothing that could be saved."""


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Say whether one device copies from another by itself; each does from every other."""
    return chip.index(device) != chip.index(peer_device)


def hold(card: int) -> None:
    """Take one card for this process, which from now on calls it 0, as some real chips do.

    Raises RuntimeError where the process has another card already; the first touch takes card 0.
    """
    chip.extension().hold(card)


def within_reach() -> list[int]:
    """List the devices that this process may touch: all, or the one that it holds."""
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
    """Make the device of a tensor the current one inside the `with`; a tensor that is elsewhere changes nothing."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(tensor.device if tensor.device.type == chip.installed_type() else None)
