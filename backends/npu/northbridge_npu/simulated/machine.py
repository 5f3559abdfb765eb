"""The simulated machine: its NPUs, their cards, and those that a process sees."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from pathlib import Path

from northbridge_cpu_sim import SimulatedDevice
from northbridge_npu.simulated.record import RECORD
from northbridge_npu.simulated.settings import NPUSimSettings


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
