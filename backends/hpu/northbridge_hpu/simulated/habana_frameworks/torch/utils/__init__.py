"""The room of what did not fit elsewhere."""

from __future__ import annotations

from northbridge_hpu.simulated.record import watch as _watch

_watch(__name__)
