"""The names of ``torch.sdaa.amp``."""

from __future__ import annotations

from northbridge_sdaa.simulated.mixed_precision import GradScaler as GradScaler, autocast as autocast
from northbridge_sdaa.simulated.record import RECORD as _RECORD

_RECORD.watch(__name__)
