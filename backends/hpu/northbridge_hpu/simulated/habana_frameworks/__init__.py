"""The vendor's package. PT_HPU_AUTOLOAD makes ``import torch`` load all of it; without it, its import loads nothing."""

from __future__ import annotations

from northbridge_hpu.simulated.record import variable as _variable, watch as _watch

# The real package has an entry point of torch. The stand-in is installed when torch runs the entry points.
if (_variable("PT_HPU_AUTOLOAD") or "") == "1":
    from . import torch as torch

_watch(__name__)
