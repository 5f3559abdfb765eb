"""The vendor's modules, by name, and the effects of their import, which touches no NPU."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module

from northbridge_npu.simulated.machine import RECORD, NPUSimSettings, npu, visible

_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_CANN = "/usr/local/Ascend/ascend-toolkit/latest"
"""Where ``set_env.sh``, which a shell on such a machine has sourced, says that CANN is."""

_BEFORE = os.environ.get(_AUTOLOAD, "1")


def begin() -> None:
    """Turn torch's entry points off, as the import does at first."""
    RECORD.note(_AUTOLOAD, "write")
    os.environ[_AUTOLOAD] = "0"


def load() -> None:
    """Make the simulated NPUs torch's devices ``npu``. Raises ImportError without CANN."""
    if not NPUSimSettings.read().cann:
        raise ImportError("libhccl.so: cannot open shared object file: No such file or directory")
    import torch.distributed
    import torch.profiler

    import northbridge_cpu_sim
    from northbridge_npu.simulated import devices

    os.environ.setdefault("ASCEND_HOME_PATH", _CANN)
    RECORD.note("ASCEND_HOME_PATH", "write")
    northbridge_cpu_sim.install(
        # Without visible devices, one device exists but is not counted.
        npu(),
        visible=max(1, len(visible())),
        module=import_module("torch_npu.npu"),
    )
    devices.define_casts()
    # As the vendor does: two libraries, the first of which is the default for npu.
    creator = torch.distributed.Backend._plugins["HCCL"].creator_fn
    torch.distributed.Backend.register_backend("lccl", creator, extended_api=True, devices=["npu"])
    activity = torch.profiler.ProfilerActivity
    activity.NPU = activity.PrivateUse1  # type: ignore[attr-defined]


def end() -> None:
    """Put torch's switch back; earlier releases leave that to torch, which calls the entry point at its own import."""
    if NPUSimSettings.read().restores:
        put_switch_back()


def put_switch_back() -> None:
    """Put torch's switch back, for the processes that this one starts."""
    os.environ[_AUTOLOAD] = _BEFORE


def _torch_npu() -> Mapping[str, object]:
    begin()  # before it imports torch, as the vendor's
    load()
    end()
    # torch's entry point is the first.
    return {"_autoload": put_switch_back, "npu": import_module("torch_npu.npu"), "__version__": "2.14.0+simulated"}


def _npu() -> Mapping[str, object]:
    from northbridge_cpu_sim import module as chip
    from northbridge_npu.simulated import devices

    like_cuda = (
        chip.Event,
        chip.Stream,
        chip.current_device,
        chip.current_stream,
        chip.default_stream,
        chip.device,
        chip.empty_cache,
        chip.get_rng_state_all,
        chip.initial_seed,
        chip.is_initialized,
        chip.manual_seed,
        chip.manual_seed_all,
        chip.max_memory_allocated,
        chip.max_memory_reserved,
        chip.mem_get_info,
        chip.memory_allocated,
        chip.memory_reserved,
        chip.memory_stats,
        chip.reset_peak_memory_stats,
        chip.set_device,
        chip.set_rng_state_all,
        chip.stream,
        chip.synchronize,
    )
    own = (
        devices.FloatTensor,
        devices.NPUGraph,
        devices._lazy_call,
        devices._lazy_init,
        devices.device_count,
        devices.get_amp_supported_dtype,
        devices.get_device_name,
        devices.get_device_properties,
        devices.get_rng_state,
        devices.is_available,
        devices.is_bf16_supported,
        devices.set_compile_mode,
        devices.set_rng_state,
    )
    return {
        "amp": import_module("torch_npu.npu.amp"),
        "config": devices.Config(),
        "conv": devices.HF32(allowed=True),
        "default_generators": devices.Generators(),
        "init": devices._lazy_init,
        "matmul": devices.HF32(allowed=False),
        "max_memory_cached": chip.max_memory_reserved,
        "memory_cached": chip.memory_reserved,
        "reset_max_memory_allocated": chip.reset_peak_memory_stats,
        "reset_max_memory_cached": chip.reset_peak_memory_stats,
        "_initialized": False,
        "_is_in_bad_fork": chip._is_in_bad_fork,
        **{each.__name__: each for each in (*like_cuda, *own)},
    }


def _amp() -> Mapping[str, object]:
    from northbridge_npu.simulated import devices

    return {"GradScaler": devices.GradScaler, "autocast": devices.autocast}


STAND_INS = RECORD.watched({"torch_npu": _torch_npu, "torch_npu.npu": _npu, "torch_npu.npu.amp": _amp})
