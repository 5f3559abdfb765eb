"""The names of ``habana_dataloader``."""

from __future__ import annotations

from northbridge_hpu.simulated.image_loaders import HabanaDataLoader as HabanaDataLoader
from northbridge_hpu.simulated.record import watch as _watch

_watch(__name__)
