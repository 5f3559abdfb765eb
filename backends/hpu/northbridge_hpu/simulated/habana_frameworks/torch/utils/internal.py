"""The names of ``habana_frameworks.torch.utils.internal``."""

from __future__ import annotations

from northbridge_hpu.simulated.mode import is_lazy as is_lazy
from northbridge_hpu.simulated.record import watch as _watch

_watch(__name__)
