"""The names of the Transformer Engine's recipes."""

from __future__ import annotations

from northbridge_hpu.simulated.record import watch as _watch
from northbridge_hpu.simulated.transformer_engine import DelayedScaling as DelayedScaling, Format as Format

_watch(__name__)
