"""The harsh options, all that a right program survives: of this chip, and of those that pose by it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

HARSH: Mapping[str, str] = MappingProxyType(
    {
        "NORTHBRIDGE_CPU_SIM_STREAMS": "deferred",
        "NORTHBRIDGE_CPU_SIM_FRESH": "nan",
        "NORTHBRIDGE_CPU_SIM_FREED": "trap",
        "NORTHBRIDGE_CPU_SIM_CHECK_COLLECTIVES": "1",
    }
)
"""Not errors that come late: a device that has had one takes no more work, and the suite makes errors on purpose."""
