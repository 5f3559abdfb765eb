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
from northbridge_hpu.simulated.dynamic_shapes import (
    disable_dynamic_shape as disable_dynamic_shape,
    enable_dynamic_shape as enable_dynamic_shape,
    get_dynamic_shape_status as get_dynamic_shape_status,
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
from northbridge_hpu.simulated.inference import (
    disable_inference_mode as disable_inference_mode,
    disable_quantization as disable_quantization,
    enable_inference_mode as enable_inference_mode,
    enable_quantization as enable_quantization,
)
from northbridge_hpu.simulated.memory import (
    max_memory_allocated as max_memory_allocated,
    max_memory_cached as max_memory_cached,
    max_memory_reserved as max_memory_reserved,
    mem_get_info as mem_get_info,
    memory_allocated as memory_allocated,
    memory_cached as memory_cached,
    memory_reserved as memory_reserved,
    memory_stats as memory_stats,
    reset_accumulated_memory_stats as reset_accumulated_memory_stats,
    reset_peak_memory_stats as reset_peak_memory_stats,
)
from northbridge_hpu.simulated.mixed_precision import (
    get_autocast_hpu_dtype as get_autocast_hpu_dtype,
    is_autocast_hpu_enabled as is_autocast_hpu_enabled,
    set_autocast_hpu_dtype as set_autocast_hpu_dtype,
    set_autocast_hpu_enabled as set_autocast_hpu_enabled,
)
from northbridge_hpu.simulated.mode import is_lazy as _is_lazy
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

from . import _utils as _utils, graphs as graphs, metrics as metrics, random as random

if _is_lazy():
    from .graphs import (
        HPUGraph as HPUGraph,
        ModuleCacher as ModuleCacher,
        graph as graph,
        is_current_stream_capturing as is_current_stream_capturing,
        make_graphed_callables as make_graphed_callables,
        wrap_in_hpu_graph as wrap_in_hpu_graph,
        wrap_in_hpu_graph_func as wrap_in_hpu_graph_func,
    )

_initialized = False

_watch(__name__)
