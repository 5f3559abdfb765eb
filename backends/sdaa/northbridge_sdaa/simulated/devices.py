"""The names of ``torch.sdaa`` that differ from CUDA's or the simulated chip's, and the operator of DeepSpeed's Adam."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from northbridge_cpu_sim import module as chip
from northbridge_sdaa.simulated import machine
from northbridge_sdaa.simulated.machine import RECORD

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


class autocast(torch.autocast):
    """``torch.autocast("sdaa")``, in float16 unless another dtype is given."""

    def __init__(
        self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool | None = None
    ) -> None:
        super().__init__("sdaa", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """``torch.amp.GradScaler("sdaa")``."""

    def __init__(self, **options: Any) -> None:
        super().__init__("sdaa", **options)


_libraries: list[Any] = []
"""A library that is collected takes its operator along."""


# The operator `torch.ops.sdaa.fused_adam`, which the card computes as one kernel, and which is a loop over torch's
# operators here.


def define_operator(kernels: str) -> None:
    """Define the operator, with ``kernels`` as torch's key of the devices; a repeated call does nothing."""
    if _libraries:
        return
    library: Any = torch.library.Library("sdaa", "FRAGMENT")  # type: ignore[no-untyped-call]  # torch's
    library.define(
        "fused_adam(Tensor[] gradients, Tensor(a!)[] weights, Tensor(b!)[] averages, Tensor(c!)[] squares, Tensor[]"
        " maximums, float beta1, float beta2, float epsilon, float lr, float weight_decay, int decoupled, int step, int"
        " bias_correction) -> ()"
    )
    library.impl("fused_adam", RECORD.recorded("torch.ops.sdaa.fused_adam", step_adam), kernels)
    _libraries.append(library)


def step_adam(
    gradients: Sequence[Tensor],
    weights: Sequence[Tensor],
    averages: Sequence[Tensor],
    squares: Sequence[Tensor],
    _maximums: Sequence[Tensor],
    beta1: float,
    beta2: float,
    epsilon: float,
    lr: float,
    weight_decay: float,
    decoupled: int,
    step: int,
    bias_correction: int,
) -> None:
    """Step Adam in place; ``step`` counts from 1. With ``decoupled`` the weights decay by themselves, as in AdamW."""
    of_average, of_square = (1 - beta1**step, 1 - beta2**step) if bias_correction else (1.0, 1.0)
    for gradient, weight, average, square in zip(gradients, weights, averages, squares, strict=True):
        if decoupled:
            weight.mul_(1 - lr * weight_decay)
        slope = gradient if decoupled else gradient.add(weight, alpha=weight_decay)
        average.mul_(beta1).add_(slope, alpha=1 - beta1)
        square.mul_(beta2).addcmul_(slope, slope, value=1 - beta2)
        weight.addcdiv_(average, (square / of_square).sqrt().add_(epsilon), value=-lr / of_average)
