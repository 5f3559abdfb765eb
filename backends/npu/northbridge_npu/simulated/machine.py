"""The simulated machine: its settings, its NPUs and cards, and the record of what is used of its software."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pydantic

import northbridge
from northbridge_cpu_sim import Record, SimulatedDevice


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


RECORD = Record("torch_npu", "northbridge_npu.simulated", names={"torch_npu.npu": "torch.npu"})


@cache
def npu() -> SimulatedDevice:
    """Return the properties of this machine's NPUs, including their number."""
    described = SimulatedDevice.read(Path(__file__).with_name("device.toml")).as_set()
    older = "bfloat16 is not supported on this NPU."
    return (
        described if has_bfloat16() else described.model_copy(update={"lacks": {**described.lacks, "bfloat16": older}})
    )


def has_bfloat16() -> bool:
    """Return True if the cards have bfloat16."""
    return NPUSimSettings.read().card != "910ProB"


def chips_of_a_card() -> int:
    """Return the number of NPUs on each card."""
    return 2 if NPUSimSettings.read().card == "Ascend910" else 1


@cache
def visible() -> tuple[int, ...]:
    """Return the NPUs that this process sees: none if the variable is out of order, and up to the first absent one."""
    chosen = RECORD.variable("ASCEND_RT_VISIBLE_DEVICES")
    if chosen is None:
        return tuple(range(npu().count))
    leading = re.match(r"\d+(,\d+)*", chosen)
    numbers = tuple(map(int, leading[0].split(","))) if leading else ()
    if any(later <= earlier for earlier, later in pairwise(numbers)):
        return ()
    return tuple(each for each in numbers if each < npu().count)
