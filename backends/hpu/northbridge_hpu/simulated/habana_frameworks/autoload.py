"""What ``import torch`` imports at its end: all of the package in eager mode, or where PT_HPU_AUTOLOAD says so."""

from __future__ import annotations

from northbridge_hpu.simulated.mode import autoloads as _autoloads
from northbridge_hpu.simulated.record import watch as _watch

# In the real package this is a function, and an entry point of torch. The stand-in is imported when torch runs those.
if _autoloads():
    from . import torch as _torch  # noqa: F401 - for its effects

_watch(__name__)
