"""The simulated chip as torch offers a device: this package is `torch.cpu_sim`.

What is not said here is as in `torch.cuda`. A device is named by a `torch.device`, a string, an
index, or None for the current one; an index that is not there raises RuntimeError.
"""

from __future__ import annotations

from typing import Any

from northbridge_cpu_sim.module.devices import (
    DeviceProperties,
    current_device,
    device,
    device_count,
    get_amp_supported_dtype,
    get_device_name,
    get_device_properties,
    hold,
    init,
    init as _lazy_init,
    is_available,
    is_in_bad_fork as _is_in_bad_fork,
    is_initialized,
    set_device,
)
from northbridge_cpu_sim.module.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from northbridge_cpu_sim.module.random import (
    default_generator,
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
    "DeviceProperties",
    "Event",
    "Stream",
    "_is_in_bad_fork",
    "_lazy_init",
    "current_device",
    "current_stream",
    "default_generator",
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


def __getattr__(name: str) -> Any:
    # torch.utils.checkpoint reads the state of random generators only where it finds this set.
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
