"""The vendor's modules, by name, and the effects of their import, which touches no device.

``contract.toml`` has the sources of the names that the backend relies on. The others were read in DeepSpeed's
``accelerator/sdaa_accelerator.py`` (deepspeedai/DeepSpeed at ca2090b), in accelerate 1.5.0 (``utils/modeling.py``,
``checkpointing.py``) and in Tecorigin/modelzoo; ``init`` and ``is_initialized`` are inferred from CUDA's.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from importlib import import_module

import torch

import northbridge_cpu_sim
from northbridge_cpu_sim import module as chip
from northbridge_sdaa.simulated import devices, machine
from northbridge_sdaa.simulated.machine import RECORD, SDAASimSettings, put, variable

_READ = ("TORCH_SDAA_CONV_USE_FP32", "TORCH_SDAA_CONV2D_BACKWARD_USE_FP32", "TORCH_SDAA_BF16_CLIP")
"""Variables of the vendor's operators. The simulated operators always compute in the dtype of their inputs."""

_libraries: list[torch.library.Library] = []  # a collected library removes its kernels


def load() -> None:
    """Make the simulated core groups torch's devices ``sdaa``, in the way that the settings choose."""
    _parse_device_to_align_with()
    northbridge_cpu_sim.install(
        # Without visible devices, one device exists but is not counted.
        machine.core_group(),
        visible=max(1, len(machine.visible())),
        module=import_module("torch_sdaa.sdaa"),
    )
    devices.define_operator("PrivateUse1")
    if SDAASimSettings.read().registration == "patched":
        _look_built_in()
    if variable("TORCH_SDAA_AUTOLOAD") == "cuda_migrate":
        put("torch.cuda.is_available", devices.is_available)
    for name in _READ:
        variable(name)


def _parse_device_to_align_with() -> None:
    wanted = variable("TORCH_SDAA_ALIGN_NV_DEVICE")
    if wanted is not None and wanted not in ("a100", "v100"):
        print(f"no such device to align random numbers with: {wanted}", file=sys.stderr, flush=True)
        os.abort()


def _look_built_in() -> None:
    """Let torch look like one that the vendor built: its spare device type is free, and sdaa is like any other."""
    torch._C._get_privateuse1_backend_name = lambda: "privateuseone"
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that it has a kernel for all devices
        library.impl("_has_compatible_shallow_copy_type", lambda _tensor, _other: True, "PrivateUse1")  # type: ignore[no-untyped-call]
    _libraries.append(library)


def _torch_sdaa() -> Mapping[str, object]:
    load()
    return {"sdaa": import_module("torch_sdaa.sdaa"), "__version__": "3.3.0b0+simulated"}


def _sdaa() -> Mapping[str, object]:
    like_cuda = (
        chip.Event,
        chip.Stream,
        chip.current_device,
        chip.current_stream,
        chip.default_stream,
        chip.device,
        chip.get_amp_supported_dtype,
        chip.get_rng_state_all,
        chip.init,
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
        devices._lazy_call,
        devices._lazy_init,
        devices.device_count,
        devices.empty_cache,
        devices.get_device_capability,
        devices.get_device_name,
        devices.get_device_properties,
        devices.get_rng_state,
        devices.is_available,
        devices.is_bf16_supported,
        devices.max_memory_cached,
        devices.memory_cached,
        devices.reset_max_memory_allocated,
        devices.reset_max_memory_cached,
        devices.set_rng_state,
    )
    return {
        "amp": import_module("torch_sdaa.sdaa.amp"),
        "default_generators": devices.Generators(),
        "_initialized": False,
        "_is_in_bad_fork": chip._is_in_bad_fork,
        **{each.__name__: each for each in (*like_cuda, *own)},
    }


STAND_INS = RECORD.watched(
    {
        "torch_sdaa": _torch_sdaa,
        "torch_sdaa.sdaa": _sdaa,
        "torch_sdaa.sdaa.amp": {"GradScaler": devices.GradScaler, "autocast": devices.autocast},
    }
)
