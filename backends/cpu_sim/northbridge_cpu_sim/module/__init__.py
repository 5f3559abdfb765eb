"""The simulated chip as torch offers a device: this package is `torch.cpu_sim`.

What is not said here is as in `torch.cuda`. A device is named by a `torch.device`, a string, an
index, or None for the current one; an index that is not there raises RuntimeError.
"""

from __future__ import annotations

from typing import Any

from northbridge_cpu_sim.build.host import check_host

check_host()  # a vendor's simulation begins here, and what follows needs a newer torch

from torch import OutOfMemoryError as OutOfMemoryError

from northbridge_cpu_sim.module.devices import (
    DeviceProperties,
    _exchange_device,
    _maybe_exchange_device,
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_amp_supported_dtype,
    get_device_name,
    get_device_properties,
    hold,
    init,
    init as _lazy_init,
    is_available,
    is_bf16_supported,
    is_in_bad_fork as _is_in_bad_fork,
    is_initialized,
    set_device,
)
from northbridge_cpu_sim.module.inductor import (
    NoInductor as CppWrapperCodegen,
    NoInductor as PythonWrapperCodegen,
    NoInductor as Scheduling,
    NoInductor as WrapperFxCodegen,
)
from northbridge_cpu_sim.module.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from northbridge_cpu_sim.module.random import (
    default_generator,
    default_generators as _default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from northbridge_cpu_sim.module.streams import (
    Event,
    Stream,
    current_stream,
    default_stream,
    set_stream,
    stream,
    synchronize,
)

__all__ = [
    "CppWrapperCodegen",
    "DeviceProperties",
    "Event",
    "OutOfMemoryError",
    "PythonWrapperCodegen",
    "Scheduling",
    "Stream",
    "WrapperFxCodegen",
    "_exchange_device",
    "_is_in_bad_fork",
    "_lazy_init",
    "_maybe_exchange_device",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_generator",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "hold",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
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


def __getattr__(name: str) -> Any:
    # torch.utils.checkpoint reads the state of random generators only where it finds this set.
    if name == "_initialized":
        return is_initialized()
    if name == "default_generators":
        return _default_generators()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
