"""The simulated chip's device module for torch: this package is `torch.cpu_sim`.

Functions behave as in `torch.cuda` unless their docstrings differ. A device is a `torch.device`, a string, an index, or
None for the current one. An index that does not exist raises RuntimeError.
"""

from __future__ import annotations

from typing import Any

from northbridge_cpu_sim.build.host import check_host

check_host()  # a vendor's simulation begins here, and the imports below need a newer torch

from torch import OutOfMemoryError as OutOfMemoryError

from northbridge_cpu_sim.module import devices as _devices
from northbridge_cpu_sim.module.devices import (
    DeviceProperties as DeviceProperties,
    _exchange_device as _exchange_device,
    _maybe_exchange_device as _maybe_exchange_device,
    can_device_access_peer as can_device_access_peer,
    current_device as current_device,
    device as device,
    device_count as device_count,
    device_of as device_of,
    get_amp_supported_dtype as get_amp_supported_dtype,
    get_device_name as get_device_name,
    get_device_properties as get_device_properties,
    hold as hold,
    init as init,
    is_available as is_available,
    is_bf16_supported as is_bf16_supported,
    is_initialized as is_initialized,
    set_device as set_device,
)
from northbridge_cpu_sim.module.inductor import NoInductor as _NoInductor
from northbridge_cpu_sim.module.memory import (
    empty_cache as empty_cache,
    max_memory_allocated as max_memory_allocated,
    max_memory_reserved as max_memory_reserved,
    mem_get_info as mem_get_info,
    memory_allocated as memory_allocated,
    memory_reserved as memory_reserved,
    memory_stats as memory_stats,
    memory_summary as memory_summary,
    reset_accumulated_memory_stats as reset_accumulated_memory_stats,
    reset_peak_memory_stats as reset_peak_memory_stats,
)
from northbridge_cpu_sim.module.random import (
    default_generator as default_generator,
    default_generators as _default_generators,
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
from northbridge_cpu_sim.module.streams import (
    Event as Event,
    Stream as Stream,
    current_stream as current_stream,
    default_stream as default_stream,
    set_stream as set_stream,
    stream as stream,
    synchronize as synchronize,
)

# Under torch's names for them.
_lazy_init, _is_in_bad_fork = _devices.init, _devices.is_in_bad_fork
CppWrapperCodegen = PythonWrapperCodegen = Scheduling = WrapperFxCodegen = _NoInductor


def __getattr__(name: str) -> Any:
    # torch.utils.checkpoint reads the state of random generators only if this is set.
    if name == "_initialized":
        return is_initialized()
    if name == "default_generators":
        return _default_generators()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
