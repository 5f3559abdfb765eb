"""The import that makes ``npu`` a device of torch."""

from __future__ import annotations

from northbridge_npu.simulated.vendor_import import begin as _begin

_with_torch = _begin()

from northbridge_npu.simulated.vendor_import import end as _end, load as _load

_load()

from northbridge_npu.simulated.record import RECORD as _RECORD

__version__ = "2.14.0+simulated"

_end(with_torch=_with_torch)

_RECORD.watch(__name__)
