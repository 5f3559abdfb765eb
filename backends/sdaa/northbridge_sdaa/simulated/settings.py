"""Settings of the simulated cards: ``NORTHBRIDGE_SDAA_SIM_…``."""

from __future__ import annotations

from typing import Literal

import pydantic

import northbridge


class SDAASimSettings(northbridge.Settings):
    """Settings of the simulated machine; ``NORTHBRIDGE_CPU_SIM_DEVICES`` is the number of devices."""

    prefix = "NORTHBRIDGE_SDAA_SIM_"

    groups: int = pydantic.Field(
        default=4, ge=1, le=8, description="the number of core groups on a card, from 1 to 8, mostly 4 or 3"
    )
    registration: Literal["renamed", "patched"] = pydantic.Field(
        default="renamed", description="renamed (torch's spare device type) or patched (a torch that knows the chip)"
    )
    smi: Literal["1.15", "1.10", "none"] = pydantic.Field(
        default="1.15", description="1.15 (a row is a card), 1.10 (a row is a core group) or none (not installed)"
    )
    autoload: bool = pydantic.Field(
        default=False, description="1 or 0 (whether `import torch` imports the vendor's package)"
    )
