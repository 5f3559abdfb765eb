"""Settings of the simulated cards: ``NORTHBRIDGE_XPU_SIM_…``."""

from __future__ import annotations

import pydantic

import northbridge


class XPUSimSettings(northbridge.Settings):
    """Settings of the simulated machine; ``NORTHBRIDGE_CPU_SIM_DEVICES`` is the number of tiles."""

    prefix = "NORTHBRIDGE_XPU_SIM_"

    tiles: int = pydantic.Field(default=2, ge=1, le=2, description="the number of tiles on a card, 1 or 2")
