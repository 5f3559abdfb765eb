"""The names of ``habana_frameworks.torch.utils.experimental``."""

from __future__ import annotations

from northbridge_hpu.simulated.float8_operators import _set_is_dynamic_quantization as _set_is_dynamic_quantization
from northbridge_hpu.simulated.machine import _get_device_type as _get_device_type, synDeviceType as synDeviceType
from northbridge_hpu.simulated.record import watch as _watch

_watch(__name__)
