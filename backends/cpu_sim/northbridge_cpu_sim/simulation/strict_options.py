"""The strict options: a right program gives the same numbers under them, a wrong one shows its fault every time."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

STRICT_OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "NORTHBRIDGE_CPU_SIM_STREAMS": "deferred",
        "NORTHBRIDGE_CPU_SIM_FRESH": "nan",
        "NORTHBRIDGE_CPU_SIM_FREED": "trap",
        "NORTHBRIDGE_CPU_SIM_CHECK_COLLECTIVES": "1",
    }
)
"""Not errors that come late: a device that has had one takes no more work, and the suite makes errors on purpose."""
