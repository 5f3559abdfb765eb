"""The names of ``habana_frameworks.torch.core``."""

from __future__ import annotations

from northbridge_hpu.simulated.markers import mark_step as mark_step
from northbridge_hpu.simulated.mode import is_lazy as is_lazy
from northbridge_hpu.simulated.record import watch as _watch

from .. import hpu as hpu  # noqa: TID252 - there is no absolute name that a type checker knows

_watch(__name__)
