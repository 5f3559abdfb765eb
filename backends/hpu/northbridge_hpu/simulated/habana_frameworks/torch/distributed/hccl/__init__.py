"""The names of the communication library, whose import sets environment variables."""

from __future__ import annotations

from northbridge_hpu.simulated.ranks import initialize_distributed_hpu as initialize_distributed_hpu
from northbridge_hpu.simulated.record import watch as _watch

initialize_distributed_hpu()

_watch(__name__)
