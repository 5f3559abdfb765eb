"""The names of ``torch.npu`` that differ from CUDA's, or from the simulated chip's, and casts to float64."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
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


class autocast(torch.autocast):
    """``torch.autocast("npu")``, in float16 unless another dtype is given."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True) -> None:
        super().__init__("npu", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """Scales as torch's does; the overflows of all ranks count for each of them."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        dynamic: bool = True,
        enabled: bool = True,
    ) -> None:
        super().__init__("npu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self._dynamic = dynamic

    def _unscale_grads_(self, *arguments: Any, **options: Any) -> dict[torch.device, torch.Tensor]:
        found: dict[torch.device, torch.Tensor] = super()._unscale_grads_(*arguments, **options)
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            for each in found.values():
                torch.distributed.all_reduce(each)
        return found

    def update(self, new_scale: float | torch.Tensor | None = None) -> None:
        """Update the scale, unless it is not dynamic."""
        if self._dynamic or new_scale is not None:
            super().update(new_scale)


class NPUGraph:
    """Captured work of a stream."""

    def __init__(self) -> None:
        _lazy_init()
        self._graph = torch.accelerator.Graph()

    def capture_begin(self, pool: object = None, capture_error_mode: str = "global") -> None:
        """Begin to capture; ``pool`` and ``capture_error_mode`` make no difference here."""
        self._graph.capture_begin()

    def capture_end(self) -> None:
        """End the capture."""
        self._graph.capture_end()

    def replay(self) -> None:
        """Do the captured work again."""
        self._graph.replay()

    def reset(self) -> None:
        """Drop the captured work."""
        self._graph.reset()


def set_compile_mode(jit_compile: bool = False) -> None:
    """Choose between operators that are compiled when they run, and those that come with CANN."""


class Config:
    """``torch.npu.config``, whose ``allow_internal_format`` lets weights have the card's own layout."""

    allow_internal_format: bool


class HF32:
    """``torch.npu.matmul`` or ``torch.npu.conv``: ``allow_hf32`` lets float32 be computed with fewer bits."""

    def __init__(self, *, allowed: bool) -> None:
        self._allowed = allowed

    @property
    def allow_hf32(self) -> bool:
        """Return the switch. Setting it raises TypeError for a value that is not a bool."""
        return self._allowed

    @allow_hf32.setter
    def allow_hf32(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(f"allow_hf32 must be a bool, but got {type(value).__name__}")
        self._allowed = value


_libraries: list[Any] = []
"""A library that is collected takes its operator along."""


def define_casts() -> None:
    """Let casts on the chip do so; a repeated call does nothing."""
    if not _libraries:
        library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]  # torch's
        library.impl("_to_copy", _to_copy, "PrivateUse1")
        _libraries.append(library)


def _to_copy(tensor: torch.Tensor, **options: Any) -> torch.Tensor:
    """Copy as torch does, but in float32 where float64 is all that is asked: with a device, float64 stays."""
    if options.get("dtype") is torch.float64 and options.get("layout") is options.get("device") is None:
        _warn_once()
        options["dtype"] = torch.float32
    operator: Any = torch.ops.aten._to_copy.default
    copied: torch.Tensor = operator._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, tensor, **options)
    return copied


@cache
def _warn_once() -> None:
    print("Warning: NPUs do not compute float64: this cast gives float32.", file=sys.stderr, flush=True)
