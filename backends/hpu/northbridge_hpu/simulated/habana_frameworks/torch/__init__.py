"""The import that makes ``hpu`` a device of torch, and changes torch in the ways listed in the contract."""

from __future__ import annotations

from northbridge_hpu.simulated.record import watch as _watch
from northbridge_hpu.simulated.vendor_import import load as _load

from . import activity_profiler, core, distributed, hpu, utils

_load()

__all__ = ["activity_profiler", "core", "distributed", "hpu", "utils"]

_watch(__name__)
