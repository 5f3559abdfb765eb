"""The functions of ``torch.npu`` that differ from CUDA's, or from the simulated chip's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from northbridge_cpu_sim import module as chip
from northbridge_npu.simulated import machine

DeviceLike = torch.device | str | int | None

_calls_of_the_first_use: list[Callable[[], object]] = []


@dataclass(frozen=True)
class _NPUDeviceProperties:
    """The memory is in bytes."""

    name: str
    total_memory: int


def device_count() -> int:
    """Count the NPUs that this process sees."""
    return len(machine.visible())


def is_available() -> bool:
    """Return True if this process sees an NPU."""
    return device_count() > 0


def get_device_name(device_name: DeviceLike = None) -> str:
    """Return the product's name."""
    return chip.get_device_name(device_name)


def get_device_properties(device_name: DeviceLike = None) -> _NPUDeviceProperties:
    """Return the name and the memory size."""
    _lazy_init()
    return _NPUDeviceProperties(get_device_name(device_name), chip.mem_get_info(device_name)[1])


def synchronize(device: DeviceLike = None) -> None:
    """Wait until all work queued on an NPU is done."""
    chip.synchronize(device)


def is_bf16_supported() -> bool:
    """Return whether the card has bfloat16."""
    _lazy_init()
    return machine.has_bfloat16()


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the dtypes of autocast."""
    return [torch.float16, *([torch.bfloat16] if is_bf16_supported() else []), torch.float32]


def _lazy_init() -> None:
    """Take the current NPU, and do what waits for that."""
    chip.init()
    sys.modules["torch_npu.npu"].__dict__.update(_initialized=True)
    calls = [*_calls_of_the_first_use]
    _calls_of_the_first_use.clear()
    for call in calls:
        call()


def _lazy_call(cb: Callable[[], object]) -> None:
    """Call ``cb`` once this process has an NPU."""
    _calls_of_the_first_use.append(cb)
    if chip.is_initialized():
        _lazy_init()


class Generators(Sequence[torch.Generator]):
    """The generators of the visible NPUs."""

    def __len__(self) -> int:
        return device_count()

    def __getitem__(self, index: int) -> torch.Generator:  # type: ignore[override] # no slices
        return chip.default_generator(index)


def get_rng_state(device: torch.device | str | int = "npu") -> torch.Tensor:
    """Return the state of an NPU's generator."""
    return chip.get_rng_state(device)


def set_rng_state(new_state: torch.Tensor, device: torch.device | str | int = "npu") -> None:
    """Put such a state back."""
    chip.set_rng_state(new_state, device)


class FloatTensor:
    """A float32 tensor on the current NPU, made as torch's old types are: of values, or of sizes."""

    def __new__(cls, *given: Any) -> torch.Tensor:  # type: ignore[misc]  # as torch.FloatTensor
        return torch.FloatTensor(*given).to("npu")
