"""The package of the vendor's extensions."""

from __future__ import annotations

from northbridge_hpu.simulated.record import watch as _watch

from . import experimental as experimental

_watch(__name__)
