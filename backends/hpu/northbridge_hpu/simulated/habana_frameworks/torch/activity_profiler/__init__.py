"""The names of ``habana_frameworks.torch.activity_profiler``."""

from __future__ import annotations

from northbridge_hpu.simulated.record import watch as _watch
from northbridge_hpu.simulated.replaced.profiler import DebugActivity as DebugActivity

_watch(__name__)
