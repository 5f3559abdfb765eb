"""Effects of ``import torch_sdaa``, which touches no device."""

from __future__ import annotations

import os
import sys
import warnings

import torch

import northbridge_cpu_sim
from northbridge_sdaa.simulated import devices, fused_adam, machine
from northbridge_sdaa.simulated.record import put, variable
from northbridge_sdaa.simulated.settings import SDAASimSettings

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
        module=sys.modules["torch_sdaa.sdaa"],
    )
    fused_adam.register("PrivateUse1")
    if SDAASimSettings.read().registration == "patched":
        _pass_for_a_type_of_torchs_own()
    if variable("TORCH_SDAA_AUTOLOAD") == "cuda_migrate":
        put("torch.cuda.is_available", devices.is_available)
    for name in _READ:
        variable(name)


def _parse_device_to_align_with() -> None:
    wanted = variable("TORCH_SDAA_ALIGN_NV_DEVICE")
    if wanted is not None and wanted not in ("a100", "v100"):
        print(f"no such device to align random numbers with: {wanted}", file=sys.stderr, flush=True)
        os.abort()


def _pass_for_a_type_of_torchs_own() -> None:
    """Let torch look like one that the vendor built: its spare device type is free, and sdaa is like any other."""
    torch._C._get_privateuse1_backend_name = lambda: "privateuseone"
    library = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that it has a kernel for all devices
        library.impl("_has_compatible_shallow_copy_type", lambda _tensor, _other: True, "PrivateUse1")  # type: ignore[no-untyped-call]
    _libraries.append(library)
