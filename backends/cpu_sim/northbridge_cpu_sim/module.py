"""The simulated chip's device module for torch: this module is `torch.cpu_sim`.

Functions behave as in `torch.cuda` unless their docstrings differ. A device is a `torch.device`, a string, an index, or
None for the current one. An index that does not exist raises RuntimeError. Work ends before a call returns; if streams
are deferred, copies and collectives wait instead.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import northbridge_cpu_sim.chip as _chip
from northbridge_cpu_sim.chip import DeviceLike

_chip.check_host()  # a vendor's simulation begins here, and the imports below need a newer torch

import torch
from torch import Event as Event, OutOfMemoryError as OutOfMemoryError, Stream as Stream
from torch.accelerator import empty_cache as empty_cache

from northbridge_cpu_sim.device_type import NoInductor as _NoInductor


def is_available() -> bool:
    """Return True if there is a device, so always after the chip's installation."""
    return device_count() > 0


def device_count() -> int:
    """Count the devices, without using them."""
    return int(_chip.extension().device_count())


def init() -> None:
    """Mark the chip as used by this process; every use of a device does so by itself.

    Raises RuntimeError in a child that was forked after its parent had used the chip.
    """
    _chip.extension().use()


def is_initialized() -> bool:
    """Return True if this process has used a device."""
    return bool(_chip.extension().in_use())


def _is_in_bad_fork() -> bool:
    """Return True if this process was forked after its parent had used the chip."""
    return bool(_chip.extension().in_bad_fork())


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Return the dtypes that autocast can use."""
    return [dtype for dtype in (torch.bfloat16, torch.float16) if not _chip.extension().lacks(dtype)]


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
        total_memory=mem_get_info(device)[1],
        card=int(_chip.extension().card(_chip.index(device))),
        type=str(_chip.installed_type()),
        multi_processor_count=torch.get_num_threads(),
    )


def get_device_name(device: DeviceLike = None) -> str:
    """Return the label with which the chip was installed."""
    _chip.index(device)
    return str(_chip.extension().label())


def current_device() -> int:
    """Return the index of this thread's current device."""
    return int(_chip.extension().current_device())


def set_device(device: DeviceLike) -> None:
    """Make a device this thread's current one."""
    _chip.extension().exchange_device(_chip.index(device))


def _exchange_device(index: int) -> int:
    """Make a device current, and return the previous one; a negative index changes nothing and returns -1."""
    return -1 if index < 0 else int(_chip.extension().exchange_device(index))


_maybe_exchange_device = _exchange_device
"""The same function: making a device current costs nothing that could be saved."""


def can_device_access_peer(device: DeviceLike, peer_device: DeviceLike) -> bool:
    """Return True if one device can copy from the other directly; every pair can."""
    return _chip.index(device) != _chip.index(peer_device)


def hold(card: int) -> None:
    """Acquire one card for this process, which then has the index 0, as on some real chips.

    Raises RuntimeError if the process holds another card already; the first use acquires card 0.
    """
    _chip.extension().hold(card)


def _within_reach() -> list[int]:
    """Return the devices that this process may touch: all, or only the one that it holds."""
    return [index for index in range(device_count()) if _chip.extension().within_reach(index)]


class device(contextlib.AbstractContextManager[None]):
    """Make a device the current one inside the `with`."""

    def __init__(self, device: DeviceLike) -> None:
        self.idx = _chip.index(device)
        self._before: list[int] = []

    def __enter__(self) -> None:
        self._before.append(_chip.extension().exchange_device(self.idx))

    def __exit__(self, *_: object) -> None:
        _chip.extension().exchange_device(self._before.pop())


class device_of(device):
    """Make the device of a tensor the current one inside the `with`; a tensor on another type changes nothing."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(tensor.device if tensor.device.type == _chip.installed_type() else None)


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """Return a device's memory statistics, flat, under CUDA's names; empty before the first use."""
    return torch.accelerator.memory_stats(_chip.index(device))


def memory_allocated(device: DeviceLike = None) -> int:
    """Return the bytes that tensors hold on a device."""
    return torch.accelerator.memory_allocated(_chip.index(device))


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Return the peak of the bytes that tensors hold, since the last reset."""
    return torch.accelerator.max_memory_allocated(_chip.index(device))


def memory_reserved(device: DeviceLike = None) -> int:
    """Return the bytes reserved on a device; nothing is cached, so they equal the allocated bytes."""
    return torch.accelerator.memory_reserved(_chip.index(device))


def max_memory_reserved(device: DeviceLike = None) -> int:
    """Return the peak of the bytes reserved on a device, since the last reset."""
    return torch.accelerator.max_memory_reserved(_chip.index(device))


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Reset the peaks of a device to the memory in use."""
    torch.accelerator.reset_peak_memory_stats(_chip.index(device))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Reset the sums of a device to 0."""
    torch.accelerator.reset_accumulated_memory_stats(_chip.index(device))


_ROWS = {
    "Allocated memory": "allocated_bytes",
    "Active memory": "active_bytes",
    "Requested memory": "requested_bytes",
    "Reserved memory": "reserved_bytes",
    "Allocations": "allocation",
}
_COLUMNS = {"Cur Usage": "current", "Peak Usage": "peak", "Tot Alloc": "allocated", "Tot Freed": "freed"}


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:  # noqa: ARG001  # as CUDA has it
    """Return a device's memory statistics as a table, as CUDA prints them; the long form equals the abbreviated.

    Before the first use of the chip all figures are 0.
    """
    index = _chip.index(device)
    stats = memory_stats(index)
    name = f"{_chip.installed_type()}:{index}"
    lines = [f"{name} memory summary, out of memory {stats.get('num_ooms', 0)} times"]
    lines.append(" | ".join([f"{'Metric':<16}", *(f"{column:>12}" for column in _COLUMNS)]))
    for row, key in _ROWS.items():
        figures = (int(stats.get(f"{key}.all.{part}", 0)) for part in _COLUMNS.values())
        written = (f"{figure:>12}" if key == "allocation" else f"{_in_units(figure):>12}" for figure in figures)
        lines.append(" | ".join([f"{row:<16}", *written]))
    return "\n".join(lines)


def _in_units(count: int) -> str:
    unit, units = 0, ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    while count >= 100 * 1024 and unit + 1 < len(units):
        count, unit = count // 1024, unit + 1
    return f"{count} {units[unit]}"


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Return a device's free and total memory in bytes."""
    return torch.accelerator.get_memory_info(_chip.index(device))


def default_generator(device: DeviceLike = None) -> torch.Generator:
    """Return a device's generator."""
    generator: torch.Generator = _chip.extension().default_generator(_chip.index(device))
    return generator


def _default_generators() -> tuple[torch.Generator, ...]:
    """Return the generators of all devices."""
    return tuple(default_generator(index) for index in _within_reach())


def get_rng_state(device: DeviceLike = None) -> torch.Tensor:
    """Return the state of a device's generator, as a CPU tensor of bytes."""
    return default_generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """Return the states of all devices' generators."""
    return [get_rng_state(index) for index in _within_reach()]


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = None) -> None:
    """Restore a device's generator to a state from `get_rng_state`."""
    default_generator(device).set_state(new_state.cpu())


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Restore all devices' generators to states from `get_rng_state_all`."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seed the current device's generator."""
    default_generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed all devices' generators with the same number."""
    for index in _within_reach():
        default_generator(index).manual_seed(int(seed))


def seed() -> None:
    """Seed the current device's generator with a random number."""
    default_generator().seed()


def seed_all() -> None:
    """Seed all devices' generators with the same random number."""
    manual_seed_all(default_generator().seed())


def initial_seed() -> int:
    """Return the seed of the current device's generator."""
    return default_generator().initial_seed()


def synchronize(device: DeviceLike = None) -> None:
    """Wait for a device's deferred copies and collectives. Kernels never have to be waited for."""
    torch.accelerator.synchronize(_chip.index(device))


def current_stream(device: DeviceLike = None) -> Stream:
    """Return this thread's current stream on a device."""
    return torch.accelerator.current_stream(_chip.index(device))


def default_stream(device: DeviceLike = None) -> Stream:
    """Return the default stream of a device."""
    of = torch.accelerator.current_stream(_chip.index(device))
    return Stream(stream_id=0, device_index=of.device_index, device_type=of.device_type)


def set_stream(stream: Stream) -> None:
    """Make a stream, and its device, this thread's current ones."""
    torch.accelerator.set_stream(stream)


def stream(stream: Stream | None) -> contextlib.AbstractContextManager[Any]:
    """Make a stream the current one inside the `with`; None changes nothing."""
    return contextlib.nullcontext() if stream is None else stream


_lazy_init = init  # torch's name for it
CppWrapperCodegen = PythonWrapperCodegen = Scheduling = WrapperFxCodegen = _NoInductor


def __getattr__(name: str) -> Any:
    # torch.utils.checkpoint reads the state of random generators only if this is set.
    if name == "_initialized":
        return is_initialized()
    if name == "default_generators":
        return _default_generators()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
