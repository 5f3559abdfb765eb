"""The names of ``torch.npu``."""

from __future__ import annotations

from northbridge_cpu_sim import module as _chip
from northbridge_npu.simulated.devices import (
    FloatTensor as FloatTensor,
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
from northbridge_npu.simulated.options import HF32 as _HF32, Config as _Config, set_compile_mode as set_compile_mode
from northbridge_npu.simulated.record import RECORD as _RECORD

from . import amp as amp

_initialized = False
default_generators = _Generators()
init = _lazy_init
config, matmul, conv = _Config(), _HF32(allowed=False), _HF32(allowed=True)

Event, Stream, device, stream = _chip.Event, _chip.Stream, _chip.device, _chip.stream
current_stream, default_stream = _chip.current_stream, _chip.default_stream
current_device, set_device = _chip.current_device, _chip.set_device
is_initialized, _is_in_bad_fork = _chip.is_initialized, _chip._is_in_bad_fork

empty_cache, mem_get_info, memory_stats = _chip.empty_cache, _chip.mem_get_info, _chip.memory_stats
memory_allocated, max_memory_allocated = _chip.memory_allocated, _chip.max_memory_allocated
memory_reserved = memory_cached = _chip.memory_reserved
max_memory_reserved = max_memory_cached = _chip.max_memory_reserved
reset_peak_memory_stats = reset_max_memory_allocated = reset_max_memory_cached = _chip.reset_peak_memory_stats

manual_seed, manual_seed_all, initial_seed = _chip.manual_seed, _chip.manual_seed_all, _chip.initial_seed
get_rng_state_all, set_rng_state_all = _chip.get_rng_state_all, _chip.set_rng_state_all

_RECORD.watch(__name__)
