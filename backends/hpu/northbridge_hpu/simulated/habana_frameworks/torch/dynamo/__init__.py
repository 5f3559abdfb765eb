"""The package of the vendor's part of ``torch.compile``."""

from __future__ import annotations

from northbridge_hpu.simulated.record import watch as _watch

_watch(__name__)
