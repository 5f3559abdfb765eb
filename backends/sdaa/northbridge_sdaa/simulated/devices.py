"""The functions of ``torch.sdaa`` that differ from CUDA's, or from the simulated chip's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from northbridge_cpu_sim import module as chip
from northbridge_sdaa.simulated import machine

DeviceLike = torch.device | str | int | None


@dataclass(frozen=True)
class _SDAADeviceProperties:
    """The known device properties; the memory is in bytes."""

    name: str
    total_memory: int


def is_available() -> bool:
    """Return True if this process sees a device."""
    return device_count() > 0


def device_count() -> int:
    """Count the core groups that this process sees."""
    return len(machine.visible())


_waiting: list[Callable[[], object]] = []


def _lazy_init() -> None:
    """Initialize the chip. torch calls it before the first tensor is created there."""
    chip.init()
    vars(sys.modules["torch_sdaa.sdaa"])["_initialized"] = True
    while _waiting:
        _waiting.pop(0)()


def _lazy_call(callable: Callable[[], object]) -> None:  # noqa: A002 - the vendor's name for it
    """Call ``callable`` when the chip is first used, or now if it is in use."""
    if chip.is_initialized():
        callable()
    else:
        _waiting.append(callable)


def get_device_name(device: DeviceLike = None) -> str:
    """Return the device file of a device's card, not a product's name."""
    index = chip.current_device() if device is None else torch.device(device).index or 0
    return f"/dev/tcaicard{machine.card_of(machine.visible()[index])}"


def get_device_properties(device: DeviceLike = None) -> _SDAADeviceProperties:
    """Return an object with the name and the memory size, and without the other fields of CUDA's."""
    return _SDAADeviceProperties(get_device_name(device), chip.mem_get_info(device)[1])


def get_device_capability(device: DeviceLike = None) -> None:
    """Return None: the vendor's function has no useful result."""


def is_bf16_supported() -> bool:
    """Return True: tensors can be bfloat16."""
    return True


class Generators(Sequence[torch.Generator]):
    """One generator for each device, created on first use."""

    def __getitem__(self, index: int) -> torch.Generator:  # type: ignore[override] # no slices
        return chip.default_generator(index)

    def __len__(self) -> int:
        return len(machine.visible())


def get_rng_state(device: torch.device | str | int = "sdaa") -> torch.Tensor:
    """Return the state of a device's generator; without an index it is the current device's."""
    return chip.get_rng_state(device)


def set_rng_state(new_state: torch.Tensor, device: torch.device | str | int = "sdaa") -> None:
    """Set the state of a device's generator."""
    chip.set_rng_state(new_state, device)


# The vendor uses torch's former name "cached" for reserved memory.


def empty_cache() -> None:
    """Release cached memory; the simulation has none."""
    chip.empty_cache()


def memory_cached(device: DeviceLike = None) -> int:
    """Return the bytes reserved on a device."""
    return chip.memory_reserved(device)


def max_memory_cached(device: DeviceLike = None) -> int:
    """Return the peak of the bytes reserved on a device."""
    return chip.max_memory_reserved(device)


def reset_max_memory_cached(device: DeviceLike = None) -> None:
    """Reset all peaks: they are not stored separately."""
    chip.reset_peak_memory_stats(device)


def reset_max_memory_allocated(device: DeviceLike = None) -> None:
    """Reset all peaks: they are not stored separately."""
    chip.reset_peak_memory_stats(device)
