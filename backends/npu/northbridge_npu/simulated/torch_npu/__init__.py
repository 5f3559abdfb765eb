"""The import that makes ``npu`` a device of torch."""

from __future__ import annotations

from northbridge_npu.simulated.vendor_import import (
    begin as _begin,
    end as _end,
    load as _load,
    put_switch_back as _autoload,  # noqa: F401 - torch's entry point
)

_begin()  # before it imports torch, as the vendor's
_load()

from northbridge_npu.simulated.record import RECORD as _RECORD  # noqa: E402 - it imports torch

__version__ = "2.14.0+simulated"

_end()

_RECORD.watch(__name__)
