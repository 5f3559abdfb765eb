"""The import that makes ``sdaa`` a device of torch."""

from __future__ import annotations

from northbridge_sdaa.simulated.record import watch as _watch
from northbridge_sdaa.simulated.vendor_import import load as _load

from . import sdaa as sdaa

__version__ = "3.3.0b0+simulated"

_load()

_watch(__name__)
