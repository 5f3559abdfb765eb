"""The vendor's package; its import brings nothing in, unless PT_HPU_AUTOLOAD asks ``import torch`` to bring all in."""

from __future__ import annotations

from northbridge_hpu.simulated.record import variable as _variable, watch as _watch

# The real package announces an entry point to torch. The stand-in is put in place where torch asks those.
if (_variable("PT_HPU_AUTOLOAD") or "") == "1":
    from . import torch as torch

_watch(__name__)
