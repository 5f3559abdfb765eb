"""The names of ``torch.sdaa.amp``."""

from __future__ import annotations

from northbridge_sdaa.simulated.mixed_precision import GradScaler as GradScaler, autocast as autocast
from northbridge_sdaa.simulated.record import watch as _watch

_watch(__name__)
