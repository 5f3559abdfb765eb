"""The mode of this process: lazy or eager."""

from __future__ import annotations

import functools

from northbridge_hpu.simulated.record import variable
from northbridge_hpu.simulated.settings import HPUSimSettings


def is_lazy() -> bool:
    """Return True if operators wait for a step marker; decided once per process, at the first call."""
    return _decided()


@functools.cache
def _decided() -> bool:
    text = variable("PT_HPU_LAZY_MODE")
    if text is None:
        return HPUSimSettings.read().release == "1.19"
    return text != "0"


def autoloads() -> bool:
    """Return True if ``import torch`` imports the vendor's package: in eager mode, unless a variable decides."""
    asked = variable("PT_HPU_AUTOLOAD")
    if asked in ("0", "1"):
        return asked == "1"
    default = "1" if HPUSimSettings.read().release == "1.19" else "0"
    return (variable("PT_HPU_LAZY_MODE") or default) != "1"


def keeps_int64() -> bool:
    """Return True if int64 is stored as int64: in eager mode from generation 2 on, unless a variable forbids it."""
    asked = (variable("PT_ENABLE_INT64_SUPPORT") or "1").lower() in {"1", "true"}
    return asked and not is_lazy() and HPUSimSettings.read().generation != "1"
