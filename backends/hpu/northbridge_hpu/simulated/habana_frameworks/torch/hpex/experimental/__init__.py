"""The room of ``transformer_engine``."""

from __future__ import annotations

from northbridge_hpu.simulated.record import watch as _watch

from . import transformer_engine as transformer_engine

_watch(__name__)
