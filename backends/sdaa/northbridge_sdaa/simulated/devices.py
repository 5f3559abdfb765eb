"""The functions of ``torch.sdaa`` that are not as CUDA's, or not as the simulated chip's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
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


class Generators(Sequence[torch.Generator]):
    """One generator a device, each made when it is asked for."""

    def __getitem__(self, index: int) -> torch.Generator:  # type: ignore[override] # no slices
        return chip.default_generator(index)

    def __len__(self) -> int:
        return len(machine.visible())


def get_rng_state(device: torch.device | str | int = "sdaa") -> torch.Tensor:
    """Return the state of a device's generator; what has no index is the current device."""
    return chip.get_rng_state(device)


def set_rng_state(new_state: torch.Tensor, device: torch.device | str | int = "sdaa") -> None:
    """Set the state of a device's generator."""
    chip.set_rng_state(new_state, device)


# Memory that is reserved was called cached.


def empty_cache() -> None:
    """Give cached memory back, of which there is none."""
    chip.empty_cache()


def memory_cached(device: DeviceLike = None) -> int:
    """Return the bytes taken from a device."""
    return chip.memory_reserved(device)


def max_memory_cached(device: DeviceLike = None) -> int:
    """Return the most bytes taken from a device."""
    return chip.max_memory_reserved(device)


def reset_max_memory_cached(device: DeviceLike = None) -> None:
    """Start all peaks anew: they are not kept apart."""
    chip.reset_peak_memory_stats(device)


def reset_max_memory_allocated(device: DeviceLike = None) -> None:
    """Start all peaks anew: they are not kept apart."""
    chip.reset_peak_memory_stats(device)
