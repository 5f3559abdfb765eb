"""The names of ``torch.hpu._utils``, which torch reads when it opens a file."""

from __future__ import annotations

from northbridge_hpu.simulated.devices import _get_device_index as _get_device_index
from northbridge_hpu.simulated.record import watch as _watch

_watch(__name__)
