"""The names of ``torch.hpu``."""

from __future__ import annotations

from northbridge_hpu.simulated.devices import (
    _lazy_init as _lazy_init,
    current_device as current_device,
    device as device,
    device_count as device_count,
    get_device_capability as get_device_capability,
    get_device_name as get_device_name,
    get_device_properties as get_device_properties,
    init as init,
    is_available as is_available,
    is_bf16_supported as is_bf16_supported,
    is_initialized as is_initialized,
    set_device as set_device,
    synchronize as synchronize,
)
from northbridge_hpu.simulated.generators import (
    get_rng_state as get_rng_state,
    get_rng_state_all as get_rng_state_all,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    manual_seed_all as manual_seed_all,
    seed as seed,
    seed_all as seed_all,
    set_rng_state as set_rng_state,
    set_rng_state_all as set_rng_state_all,
)
from northbridge_hpu.simulated.memory import (
    max_memory_allocated as max_memory_allocated,
    mem_get_info as mem_get_info,
    memory_allocated as memory_allocated,
    memory_reserved as memory_reserved,
    memory_stats as memory_stats,
    reset_peak_memory_stats as reset_peak_memory_stats,
)
from northbridge_hpu.simulated.record import watch as _watch
from northbridge_hpu.simulated.streams import (
    Event as Event,
    Stream as Stream,
    current_stream as current_stream,
    default_stream as default_stream,
    record_stream as record_stream,
    set_stream as set_stream,
    stream as stream,
)

from . import _utils as _utils, metrics as metrics, random as random

_initialized = False

_watch(__name__)
