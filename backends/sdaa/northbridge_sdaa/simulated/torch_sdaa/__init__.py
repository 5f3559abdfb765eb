"""The import that makes ``sdaa`` a device of torch."""

from __future__ import annotations

from northbridge_sdaa.simulated.loading import load as _load
from northbridge_sdaa.simulated.record import watch as _watch

from . import sdaa as sdaa

__version__ = "3.3.0b0+simulated"

_load()

_watch(__name__)
