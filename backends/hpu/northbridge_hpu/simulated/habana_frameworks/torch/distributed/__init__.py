"""The package of the communication library."""

from __future__ import annotations

from northbridge_hpu.simulated.record import watch as _watch

from . import hccl as hccl

_watch(__name__)
