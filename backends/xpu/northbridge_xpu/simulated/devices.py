"""The functions of ``torch._C`` about devices, for ``torch.xpu``: each with torch's own name."""

from __future__ import annotations

import uuid as uuids
from dataclasses import dataclass, field

import torch

from northbridge_cpu_sim import module as chip
from northbridge_xpu.simulated import machine

_has_xpu = True


@dataclass(frozen=True)
class _XpuDeviceProperties:
    """The properties of one device, under torch's names; those of a Data Center GPU Max, as Intel publishes them."""

    name: str
    total_memory: int
    uuid: object
    platform_name: str = "Intel(R) oneAPI Unified Runtime over Level-Zero"
    vendor: str = "Intel(R) Corporation"
    type: str = "gpu"
    device_id: int = 0x0BD5
    driver_version: str = "simulated"
    version: str = "simulated"
    max_compute_units: int = 512
    gpu_eu_count: int = 512
    gpu_subslice_count: int = 64
    max_work_group_size: int = 1024
    max_num_sub_groups: int = 64
    sub_group_sizes: list[int] = field(default_factory=lambda: [16, 32])
    memory_clock_rate: int = 3200
    memory_bus_width: int = 64
    local_mem_size: int = 128 * 1024
    last_level_cache_size: int = 204 * 1024 * 1024
    architecture: int = 0
    has_fp16: bool = True
    has_fp64: bool = True
    has_atomic64: bool = True
    has_bfloat16_conversions: bool = True
    has_subgroup_matrix_multiply_accumulate: bool = True
    has_subgroup_matrix_multiply_accumulate_tensor_float32: bool = True
    has_subgroup_2d_block_io: bool = True
    is_integrated_gpu: bool = False


def _xpu_init() -> None:
    """Initialize the chip, and give ``torch.xpu`` its generators, as the C++ code does."""
    chip.init()
    vars(torch.xpu).update(
        default_generators=tuple(map(chip.default_generator, range(chip.device_count()))),
        _get_device_properties=_get_device_properties,
    )


def _get_device_properties(device: int) -> _XpuDeviceProperties:
    """Return the properties of a device."""
    return _XpuDeviceProperties(
        name=chip.get_device_name(device),
        total_memory=chip.mem_get_info(device)[1],
        uuid=uuids.uuid5(uuids.NAMESPACE_OID, str(machine.visible()[device])),
    )


def _xpu_isInBadFork() -> bool:
    """Return True if this process was forked after its parent had used a device."""
    return chip._is_in_bad_fork()


def _xpu_getDeviceCount() -> int:
    """Count the devices that this process sees."""
    return len(machine.visible())


def _xpu_getDevice() -> int:
    """Return the current device."""
    return chip.current_device()


def _xpu_setDevice(device: int) -> None:
    """Make a device the current one."""
    chip.set_device(device)


def _xpu_exchangeDevice(device: int) -> int:
    """Make a device the current one, and return the one before."""
    return chip._exchange_device(device)


def _xpu_maybeExchangeDevice(device: int) -> int:
    """Do the same, which costs nothing that could be saved."""
    return chip._maybe_exchange_device(device)


def _xpu_canDeviceAccessPeer(device: int, peer: int) -> bool:
    """Return True if one device can copy from the other directly."""
    return chip.can_device_access_peer(device, peer)


def _xpu_synchronize(device: int) -> None:
    """Wait for the work of a device."""
    chip.synchronize(device)


def _xpu_getArchFlags() -> str | None:
    """Return the architectures that torch was compiled for: none, as in a build without ahead-of-time compilation."""
    return None
