"""The names of ``torch.npu``."""

from __future__ import annotations

from northbridge_cpu_sim import module as _chip
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
    max_memory_cached as max_memory_cached,
    memory_cached as memory_cached,
    reset_max_memory_allocated as reset_max_memory_allocated,
    reset_max_memory_cached as reset_max_memory_cached,
    set_rng_state as set_rng_state,
    synchronize as synchronize,
)
from northbridge_npu.simulated.graphs import NPUGraph as NPUGraph
from northbridge_npu.simulated.record import RECORD as _RECORD

from . import amp as amp

Event, Stream, device = _chip.Event, _chip.Stream, _chip.device

_initialized = False
_is_in_bad_fork = _chip._is_in_bad_fork
current_device = _chip.current_device
current_stream = _chip.current_stream
default_generators = _Generators()
default_stream = _chip.default_stream
empty_cache = _chip.empty_cache
get_rng_state_all = _chip.get_rng_state_all
init = _lazy_init
initial_seed = _chip.initial_seed
is_initialized = _chip.is_initialized
manual_seed = _chip.manual_seed
manual_seed_all = _chip.manual_seed_all
max_memory_allocated = _chip.max_memory_allocated
max_memory_reserved = _chip.max_memory_reserved
mem_get_info = _chip.mem_get_info
memory_allocated = _chip.memory_allocated
memory_reserved = _chip.memory_reserved
memory_stats = _chip.memory_stats
reset_peak_memory_stats = _chip.reset_peak_memory_stats
set_device = _chip.set_device
set_rng_state_all = _chip.set_rng_state_all
stream = _chip.stream

_RECORD.watch(__name__)
