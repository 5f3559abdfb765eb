"""The functions of ``torch.hpu`` about devices, memory and random numbers.

They have the vendor's signatures, which differ from CUDA's. ``torch.hpu`` has all that are public here.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from types import TracebackType

import torch
from torch.utils.checkpoint import DefaultDeviceType

from northbridge_cpu_sim import module as chip
from northbridge_hpu.simulated import machine, markers
from northbridge_hpu.simulated.machine import set_variable, variable

DeviceLike = torch.device | str | int | None
_EIGHT = 8


def is_available() -> bool:
    """Return True if there are cards; acquires none."""
    return device_count() > 0


def device_count() -> int:
    """Count the server's cards, visible to this process or not; acquires none."""
    return machine.device_count()


def init() -> None:
    """Acquire this process's card."""
    _lazy_init()


def _lazy_init() -> None:
    """Acquire this process's card, and make ``hpu`` the default of activation checkpointing.

    torch calls it before the first tensor is made on the card. Activation checkpointing reads ``_initialized`` before
    it saves the card's random state.
    """
    chip.init()
    vars(sys.modules["habana_frameworks.torch.hpu"])["_initialized"] = True
    DefaultDeviceType.set_device_type("hpu")


def is_initialized() -> bool:
    """Return True if this process holds a card."""
    return chip.is_initialized()


def current_device() -> int:
    """Acquire this process's card, and return 0, its index in every process."""
    _lazy_init()
    return 0


def set_device(device: DeviceLike) -> None:
    """Set HLS_MODULE_ID if it is unset; a card that is already held stays.

    Raises AssertionError if HLS_MODULE_ID is set to a module that is not visible.
    """
    index = _get_device_index(device, True)
    visible, own = variable("HABANA_VISIBLE_MODULES"), variable("HLS_MODULE_ID")
    assert index == 0 or visible is not None or own is not None or device_count() >= _EIGHT, (
        f"device {index} needs HLS_MODULE_ID or HABANA_VISIBLE_MODULES where there are fewer than {_EIGHT} devices"
    )
    modules = visible.split(",") if visible is not None else [str(module) for module in range(_EIGHT)]
    if own is None:
        set_variable("HLS_MODULE_ID", modules[index].strip())
        return
    assert own.strip() in [module.strip() for module in modules], f"HLS_MODULE_ID={own} is not among {modules}"


class device:
    """Change nothing inside the ``with``: there is one device. Raises AssertionError for any other.

    Entering calls :func:`set_device` with HLS_MODULE_ID, if it is set.
    """

    def __init__(self, device: DeviceLike) -> None:
        self.idx = _get_device_index(device, True)
        own = variable("HLS_MODULE_ID")
        assert self.idx == 0 or str(self.idx) == own, f"device {self.idx} is neither 0 nor HLS_MODULE_ID={own}"

    def __enter__(self) -> None:
        own = variable("HLS_MODULE_ID")
        if own is not None:
            set_device(int(own))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


def get_device_name(device: DeviceLike = None) -> str:  # noqa: ARG001 - there is one
    """Acquire this process's card, and return the name of its generation; without cards, "" with a warning."""
    if not is_available():
        warnings.warn("Device not available", stacklevel=2)
        return ""
    _lazy_init()
    return machine.generation().label


def get_device_capability(device: DeviceLike = None) -> str:  # noqa: ARG001
    """Acquire this process's card, and return the driver's version: a text, not a pair of numbers."""
    _lazy_init()
    return machine.DRIVER


def get_device_properties(device: DeviceLike = None) -> str:  # noqa: ARG001
    """Acquire this process's card, and return a text about it, not an object."""
    _lazy_init()
    return f"(dramSize={chip.mem_get_info()[1]}, device_type={machine.generation().number})"


def synchronize() -> None:
    """Wait for the device's work; in lazy mode a step marker is set first. It has no device parameter."""
    markers.mark_step()
    _lazy_init()
    chip.synchronize()


def is_bf16_supported() -> bool:
    """Return True if there are cards: all have bfloat16."""
    return is_available()


def _get_device_index(device: DeviceLike, optional: bool = False, /) -> int:
    """Return the index of ``device``; without an index it is the current device, for which the card is acquired."""
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != "hpu":
            raise ValueError(f"expected an hpu device, found {device}")
        device = device.index
    if device is None:
        if not optional:
            raise ValueError("expected a device with an index")
        return current_device()
    return device


_KEYS = {
    "InUse": "allocated_bytes.all.current",
    "MaxInUse": "allocated_bytes.all.peak",
    "NumAllocs": "allocation.all.allocated",
    "NumFrees": "allocation.all.freed",
    "ActiveAllocs": "allocation.all.current",
    # Each tensor's memory is allocated from the host: the allocator's numbers are also the system's.
    "TotalSystemAllocs": "allocation.all.allocated",
    "TotalSystemFrees": "allocation.all.freed",
    "TotalActiveAllocs": "allocation.all.current",
    "MaxAllocSize": "allocated_bytes.all.peak",  # an upper bound: the largest allocation is not counted by itself
}


def memory_stats(device: DeviceLike = None) -> dict[str, int]:  # noqa: ARG001 - there is one
    """Return the allocator's numbers under the vendor's keys, sizes in bytes."""
    _lazy_init()
    stats = chip.memory_stats()
    return {"Limit": chip.mem_get_info()[1], **{key: int(stats[name]) for key, name in _KEYS.items()}}


def memory_allocated(device: DeviceLike = None) -> int:
    """Return the bytes in use."""
    return memory_stats(device)["InUse"]


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Return the peak of the bytes in use since the last reset."""
    return memory_stats(device)["MaxInUse"]


def memory_reserved(device: DeviceLike = None) -> int:
    """Return the bytes that the process has reserved: all of the card's memory."""
    return memory_stats(device)["Limit"]


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Return the most bytes that the process has reserved: all of the card's memory."""
    return memory_reserved(device)


def memory_cached(device: DeviceLike = None) -> int:
    """Return :func:`memory_reserved`, with a warning that names it."""
    warnings.warn("torch.hpu.memory_cached is called memory_reserved", FutureWarning, stacklevel=2)
    return memory_reserved(device)


def max_memory_cached(device: DeviceLike = None) -> int:
    """Return :func:`max_memory_reserved`, with a warning that names it."""
    warnings.warn("torch.hpu.max_memory_cached is called max_memory_reserved", FutureWarning, stacklevel=2)
    return max_memory_reserved(device)


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Return the free bytes, and all bytes."""
    stats = memory_stats(device)
    return stats["Limit"] - stats["InUse"], stats["Limit"]


def reset_peak_memory_stats(device: DeviceLike = None) -> None:  # noqa: ARG001
    """Reset the peak to the memory in use."""
    _lazy_init()
    chip.reset_peak_memory_stats()


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:  # noqa: ARG001
    """Reset the counts of allocations."""
    _lazy_init()
    chip.reset_accumulated_memory_stats()


default_generators: list[torch.Generator] = []
"""The generator of device 0, in a list; the vendor's import puts it there."""

RandomDevice = torch.device | str | int


def get_rng_state(device: RandomDevice = "hpu") -> torch.Tensor:
    """Return the state of the generator. A device without an index acquires the card."""
    _check_first(device, "hpu get_rng_state supports only device 0")
    return chip.get_rng_state(0)


def set_rng_state(new_state: torch.Tensor, device: RandomDevice = "hpu") -> None:
    """Set the state of the generator. A device without an index acquires the card."""
    _check_first(device, "hpu set_rng_state supports only device 0")
    chip.set_rng_state(new_state, 0)


def get_rng_state_all() -> list[torch.Tensor]:
    """Return the state of the only generator, in a list."""
    return [get_rng_state(0)]


def set_rng_state_all(new_states: Sequence[torch.Tensor]) -> None:
    """Set the state of the only generator, from a list of one state."""
    assert len(new_states) == 1, f"there is one generator, but {len(new_states)} states"
    set_rng_state(new_states[0], 0)


def manual_seed(seed: int) -> torch.Generator:
    """Seed the generator, and return it."""
    return chip.default_generator(0).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed every generator: there is one."""
    manual_seed(seed)


def seed() -> None:
    """Seed the generator with a random number."""
    chip.seed()


def seed_all() -> None:
    """Seed every generator with a random number."""
    seed()


def initial_seed() -> int:
    """Return the seed of the generator."""
    return chip.initial_seed()


def _check_first(device: RandomDevice, otherwise: str) -> None:
    if _get_device_index(device, True) != 0:
        raise RuntimeError(otherwise)


def enable_dynamic_shape() -> None:
    """Let the card's compiler refine graphs for new shapes; the simulated card computes the same."""


def disable_dynamic_shape() -> None:
    """Make each new shape a graph of its own; the simulated card computes the same."""
