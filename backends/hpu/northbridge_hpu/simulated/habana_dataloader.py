"""The names of ``habana_dataloader``."""

from __future__ import annotations

from northbridge_hpu.simulated.image_loaders import VendorsDataLoader as HabanaDataLoader
from northbridge_hpu.simulated.record import watch as _watch

__all__ = ["HabanaDataLoader"]

_watch(__name__)
