"""The simulated Ascend NPUs, as the tests of simulated chips have to know them."""

from __future__ import annotations

from pathlib import Path

from tests.backends.simulation.chip import SimChip
from tests.backends.simulation.page import Page

import northbridge_npu
from northbridge_npu.simulated.machine import RECORD

ASCEND = SimChip(
    name="npu",
    package=northbridge_npu,
    record=RECORD,
    imports="import torch\nimport torch_npu\n",
    collective="hccl",
    variables=("ASCEND", "HCCL"),
    page=Page("docs/npu.md"),
    scripts=Path(__file__).parent / "scripts",
    modes={"eager": {}},
    eight_ranks="npu available: True (simulated), using: 8 devices",
    places=tuple(f"rank {rank}: node {rank // 2}, device {rank % 2}" for rank in range(4)),
)
