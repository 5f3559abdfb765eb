"""The names of ``torch.npu.amp``."""

from __future__ import annotations

from northbridge_npu.simulated.mixed_precision import GradScaler as GradScaler, autocast as autocast
from northbridge_npu.simulated.record import RECORD as _RECORD

_RECORD.watch(__name__)
