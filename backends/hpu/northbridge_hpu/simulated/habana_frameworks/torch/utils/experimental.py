"""The names of ``habana_frameworks.torch.utils.experimental``."""

from __future__ import annotations

from northbridge_hpu.simulated.dynamic_shapes import (
    const_shape_dataloader as const_shape_dataloader,
    data_dynamicity as data_dynamicity,
    detect_recompilation_auto_model as detect_recompilation_auto_model,
)
from northbridge_hpu.simulated.float8_operators import _set_is_dynamic_quantization as _set_is_dynamic_quantization
from northbridge_hpu.simulated.machine import (
    _get_device_type as _get_device_type,
    _is_fp16_supported as _is_fp16_supported,
    synDeviceType as synDeviceType,
)
from northbridge_hpu.simulated.record import watch as _watch

_watch(__name__)
