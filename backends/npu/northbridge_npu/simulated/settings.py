"""Settings of the simulated NPUs: ``NORTHBRIDGE_NPU_SIM_…``."""

from __future__ import annotations

from typing import Literal

import pydantic

import northbridge


class NPUSimSettings(northbridge.Settings):
    """Settings of the simulated machine; ``NORTHBRIDGE_CPU_SIM_DEVICES`` is the number of NPUs."""

    prefix = "NORTHBRIDGE_NPU_SIM_"

    card: Literal["910B3", "Ascend910", "910ProB"] = pydantic.Field(
        default="910B3", description="910B3, Ascend910 (two NPUs on a card) or 910ProB (without bfloat16)"
    )
    smi: Literal["24.1", "none"] = pydantic.Field(default="24.1", description="24.1 or none (not installed)")
    autoload: bool = pydantic.Field(
        default=True, description="1 or 0 (whether `import torch` imports the vendor's package)"
    )
    restores: bool = pydantic.Field(
        default=True, description="1 or 0 (whether its import restores torch's switch, as later releases do)"
    )
    cann: bool = pydantic.Field(default=True, description="1 or 0 (whether the libraries of CANN are there)")
