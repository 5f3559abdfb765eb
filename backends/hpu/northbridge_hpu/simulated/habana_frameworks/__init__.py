"""The vendor's package, whose import loads nothing."""

from __future__ import annotations

from northbridge_hpu.simulated.record import watch as _watch

_watch(__name__)
