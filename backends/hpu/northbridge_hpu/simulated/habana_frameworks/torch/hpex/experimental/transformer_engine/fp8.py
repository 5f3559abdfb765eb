"""The state of ``fp8_autocast``."""

from __future__ import annotations

from northbridge_hpu.simulated.record import watch as _watch
from northbridge_hpu.simulated.transformer_engine import (
    FP8GlobalStateManager as FP8GlobalStateManager,
    is_fp8_enabled as is_fp8_enabled,
)

_watch(__name__)
