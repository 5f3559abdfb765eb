"""The names of ``habana_frameworks.torch.core.step_closure``."""

from __future__ import annotations

from northbridge_hpu.simulated.markers import (
    _mark_step_if_lazy as _mark_step_if_lazy,
    add_step_closure as add_step_closure,
    mark_step as mark_step,
)
from northbridge_hpu.simulated.record import watch as _watch

_watch(__name__)
