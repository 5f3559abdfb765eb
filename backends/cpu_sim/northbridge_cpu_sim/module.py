"""The simulated chip as torch offers a device: `install()` makes this module `torch.cpu_sim`.

What is not said here is as in `torch.cuda`. A device is named by a `torch.device`, a string, an
index, or None for the current one; an index that is not there raises RuntimeError.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch import Event, Stream
from torch.accelerator import empty_cache
from torch.utils.backend_registration import (
    generate_methods_for_privateuse1_backend,
    rename_privateuse1_backend,
)

__all__ = [
    "DeviceProperties",
    "Event",
    "Stream",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "hold",
    "init",
    "initial_seed",
    "install",
    "is_available",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]

COLLECTIVE = "simccl"

DeviceLike = torch.device | str | int | None

_chip: ModuleType
_type: str


def install(extension: ModuleType, *, name: str, devices: int, memory: int | None, label: str) -> ModuleType:
    """Make the compiled chip torch's device `name` and its collectives the process group "simccl".

    `memory` is in bytes for each device, None being as much as the host has. Returns `torch.<name>`.
    Raises ValueError for a number of devices or a memory that the chip cannot have.
    """
    global _chip, _type
    rename_privateuse1_backend(name)
    extension.configure(devices, _host_memory() if memory is None else memory, label)
    _chip, _type = extension, name
    module = sys.modules[__name__]
    torch._register_device_module(name, module)  # type: ignore[no-untyped-call]
    generate_methods_for_privateuse1_backend()
    # The chip does this for every thread that touches it; this one may run a backward before.
    torch.autograd.set_multithreading_enabled(False)
    dist.Backend.register_backend(COLLECTIVE, _make_collective, extended_api=True, devices=[name])
    return module


def _host_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _make_collective(options: Any, backend_options: object) -> Any:
    if backend_options is not None:
        raise ValueError(f"{COLLECTIVE} takes no pg_options, but got {backend_options!r}; leave them out")
    gloo = dist.ProcessGroupGloo(options.store, options.group_rank, options.group_size, options.timeout)
    return _chip.make_collective(gloo, COLLECTIVE)


def _index(device: DeviceLike) -> int:
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != _type:
            raise ValueError(f"a {_type} device was expected, but got {str(device)!r}")
        device = device.index
    return int(_chip.checked_index(-1 if device is None else device))


def is_available() -> bool:
    """Say whether there is a device; True once the chip is installed."""
    return device_count() > 0


def device_count() -> int:
    """Count the devices, without using them."""
    return int(_chip.device_count())


def init() -> None:
    """Mark the chip as used by this process; every use of a device does so by itself.

    Raises RuntimeError in a child that was forked after its parent had used the chip.
    """
    _chip.use()


_lazy_init = init


def __getattr__(name: str) -> Any:
    # torch.utils.checkpoint reads the state of random generators only where it finds this set.
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_initialized() -> bool:
    """Say whether this process has used a device."""
    return bool(_chip.in_use())


def _is_in_bad_fork() -> bool:
    return bool(_chip.in_bad_fork())


def get_amp_supported_dtype() -> list[torch.dtype]:
    """List what autocast can lower to."""
    return [torch.bfloat16, torch.float16]


@dataclass(frozen=True)
class DeviceProperties:
    """Say what one device is.

    The memory is in bytes. `card` is the device's number on the machine, which differs from its index
    in a process that has called `hold`.
    """

    name: str
    total_memory: int
    card: int


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    """Give name, memory and card of a device."""
    return DeviceProperties(
        name=get_device_name(device),
        total_memory=mem_get_info(device)[1],
        card=int(_chip.card(_index(device))),
    )


def get_device_name(device: DeviceLike = None) -> str:
    """Give the label that the chip was installed with."""
    _index(device)
    return str(_chip.label())


def current_device() -> int:
    """Give the index of this thread's current device."""
    return int(_chip.current_device())


def set_device(device: DeviceLike) -> None:
    """Make a device this thread's current one."""
    _chip.exchange_device(_index(device))


def hold(card: int) -> None:
    """Take one card for this process, which from now on calls it 0, as some real chips do.

    Raises RuntimeError where the process has another card already; the first touch takes card 0.
    """
    _chip.hold(card)


def _within_reach() -> list[int]:
    return [index for index in range(device_count()) if _chip.within_reach(index)]


class device(contextlib.AbstractContextManager[None]):
    """Make a device the current one inside the `with`."""

    def __init__(self, device: DeviceLike) -> None:
        self.idx = _index(device)
        self._before: list[int] = []

    def __enter__(self) -> None:
        self._before.append(_chip.exchange_device(self.idx))

    def __exit__(self, *_: object) -> None:
        _chip.exchange_device(self._before.pop())


def synchronize(device: DeviceLike = None) -> None:
    """Wait for a device's work, which has ended by then: kernels of this chip are synchronous."""
    torch.accelerator.synchronize(_index(device))


def current_stream(device: DeviceLike = None) -> Stream:
    """Give this thread's current stream on a device."""
    return torch.accelerator.current_stream(_index(device))


def default_stream(device: DeviceLike = None) -> Stream:
    """Give the default stream of a device."""
    of = torch.accelerator.current_stream(_index(device))
    return Stream(stream_id=0, device_index=of.device_index, device_type=of.device_type)


def set_stream(stream: Stream) -> None:
    """Make a stream, and its device, this thread's current ones."""
    torch.accelerator.set_stream(stream)


def stream(stream: Stream | None) -> contextlib.AbstractContextManager[Any]:
    """Make a stream the current one inside the `with`; None changes nothing."""
    return contextlib.nullcontext() if stream is None else stream


def _generator(device: DeviceLike) -> torch.Generator:
    generator: torch.Generator = _chip.default_generator(_index(device))
    return generator


def get_rng_state(device: DeviceLike = None) -> torch.Tensor:
    """Give the state of a device's generator, as a CPU tensor of bytes."""
    return _generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """Give the states of all devices' generators."""
    return [get_rng_state(index) for index in _within_reach()]


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = None) -> None:
    """Put a device's generator into a state that `get_rng_state` gave."""
    _generator(device).set_state(new_state.cpu())


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Put all devices' generators into states that `get_rng_state_all` gave."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seed the current device's generator."""
    _generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed all devices' generators alike."""
    for index in _within_reach():
        _generator(index).manual_seed(int(seed))


def seed() -> None:
    """Seed the current device's generator with a random number."""
    _generator(None).seed()


def seed_all() -> None:
    """Seed all devices' generators with the same random number."""
    manual_seed_all(_generator(None).seed())


def initial_seed() -> int:
    """Give the seed of the current device's generator."""
    return _generator(None).initial_seed()


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """Give a device's memory statistics, flat, under CUDA's names; empty before the first use."""
    return torch.accelerator.memory_stats(_index(device))


def memory_allocated(device: DeviceLike = None) -> int:
    """Give the bytes that tensors hold on a device."""
    return torch.accelerator.memory_allocated(_index(device))


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Give the most bytes that tensors have held since the peak was last reset."""
    return torch.accelerator.max_memory_allocated(_index(device))


def memory_reserved(device: DeviceLike = None) -> int:
    """Give the bytes taken from a device; nothing is cached, so these are the allocated ones."""
    return torch.accelerator.memory_reserved(_index(device))


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Give the most bytes taken from a device since the peak was last reset."""
    return torch.accelerator.max_memory_reserved(_index(device))


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Start the peaks of a device anew at what is in use."""
    torch.accelerator.reset_peak_memory_stats(_index(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Start the sums of a device anew at 0."""
    torch.accelerator.reset_accumulated_memory_stats(_index(device))


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Give a device's free and total memory in bytes."""
    return torch.accelerator.get_memory_info(_index(device))
