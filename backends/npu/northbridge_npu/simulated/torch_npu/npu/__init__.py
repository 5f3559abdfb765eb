"""The names of ``torch.npu``."""

from __future__ import annotations

from northbridge_cpu_sim.module import (
    Event as Event,
    Stream as Stream,
    _is_in_bad_fork as _is_in_bad_fork,
    current_device as current_device,
    current_stream as current_stream,
    default_stream as default_stream,
    device as device,
    empty_cache as empty_cache,
    get_rng_state_all as get_rng_state_all,
    initial_seed as initial_seed,
    is_initialized as is_initialized,
    manual_seed as manual_seed,
    manual_seed_all as manual_seed_all,
    max_memory_allocated as max_memory_allocated,
    max_memory_reserved as max_memory_reserved,
    mem_get_info as mem_get_info,
    memory_allocated as memory_allocated,
    memory_reserved as memory_reserved,
    memory_stats as memory_stats,
    reset_peak_memory_stats as reset_peak_memory_stats,
    set_device as set_device,
    set_rng_state_all as set_rng_state_all,
    stream as stream,
)
from northbridge_npu.simulated.devices import (
    Generators as _Generators,
    _lazy_call as _lazy_call,
    _lazy_init as _lazy_init,
    device_count as device_count,
    get_amp_supported_dtype as get_amp_supported_dtype,
    get_device_name as get_device_name,
    get_device_properties as get_device_properties,
    get_rng_state as get_rng_state,
    is_available as is_available,
    is_bf16_supported as is_bf16_supported,
    set_rng_state as set_rng_state,
    synchronize as synchronize,
)
from northbridge_npu.simulated.graphs import NPUGraph as NPUGraph
from northbridge_npu.simulated.record import RECORD as _RECORD

from . import amp as amp

_initialized = False
default_generators = _Generators()
init = _lazy_init
max_memory_cached = max_memory_reserved
memory_cached = memory_reserved
reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats

_RECORD.watch(__name__)
