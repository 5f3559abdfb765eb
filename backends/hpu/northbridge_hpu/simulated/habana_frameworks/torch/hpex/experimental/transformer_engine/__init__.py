"""The names of the vendor's Transformer Engine."""

from __future__ import annotations

from northbridge_hpu.simulated.record import watch as _watch
from northbridge_hpu.simulated.transformer_engine import Linear as Linear, fp8_autocast as fp8_autocast

from . import fp8 as fp8, recipe as recipe

_watch(__name__)
